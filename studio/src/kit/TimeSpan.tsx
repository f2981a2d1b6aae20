import { useLanguage } from "../i18n/context";

const UNITS: [Intl.RelativeTimeFormatUnitSingular | "millisecond", number][] = [
  ["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000], ["second", 1_000], ["millisecond", 1],
];

const SECONDS = /(?:^|_)seconds$|Seconds$/;
const MILLISECONDS = /(?:^|_)(?:milliseconds|ms)$|(?:Milliseconds|Ms)$/;

/** How many milliseconds one of a number field is, by its name; null if it is no time. */
export const unitOf = (name: string): number | null => (MILLISECONDS.test(name) ? 1 : SECONDS.test(name) ? 1_000 : null);

/** The time in whole units, such as 2 h 30 min: exact, so that it can be read instead of the number. */
export function parts(ms: number): [name: string, count: number][] {
  const found: [string, number][] = [];
  let left = Math.round(ms);
  for (const [name, size] of UNITS) {
    const count = Math.floor(left / size);
    if (count) found.push([name, count]);
    left -= count * size;
  }
  return found;
}

/** What a number of seconds or milliseconds is in larger units, below its field; nothing if it has none. */
export function TimeSpan({ value, unit }: { value: unknown; unit: number | null }) {
  const { number } = useLanguage();
  if (unit === null || typeof value !== "number" || !Number.isFinite(value) || value * unit < (unit === 1 ? 1_000 : 60_000)) return null;
  return <p className="hint num">= {parts(value * unit).map(([name, count]) => number(count, { style: "unit", unit: name, unitDisplay: "short" })).join(" ")}</p>;
}
