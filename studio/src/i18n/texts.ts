import de from "./de.json";
import en from "./en.json";

type Texts = Record<string, string>;
/** Texts by key for every language, or by language and key: these can be a further language. */
export type Labels = Record<string, string | Texts>;
const TEXTS: Record<string, Texts> = { en, de };

/** Both; of two texts for the same key the second. */
export function merged(some: Labels | undefined, more: Labels | undefined): Labels {
  const found: Labels = { ...some };
  for (const [key, value] of Object.entries(more ?? {})) {
    const known = found[key];
    found[key] = typeof value === "object" && typeof known === "object" ? { ...known, ...value } : value;
  }
  return found;
}

export type Translate = (key: string, values?: Record<string, string | number>) => string;

export interface Language {
  locale: string;
  t: Translate;
  has: (key: string) => boolean;
  number: (value: number, options?: Intl.NumberFormatOptions) => string;
  dateTime: (at: number | string) => string;
  clock: (at: number | string) => string;
  ago: (at: number | string, now?: number) => string;
  /** The time by which `ago` counts, in milliseconds since the epoch. */
  now: () => number;
  duration: (ms: number) => string;
  /** This language with further texts, by language. What replaces single texts still counts. */
  extend: (texts: Record<string, Texts>) => Language;
}

/**
 * The texts and formats of a language. `labels` replace single texts; a missing text is the English one. `clock` is that
 * of the server where there is one, as the clock of a computer can be wrong.
 */
export function language(locale: string, labels: Labels = {}, more: Record<string, Texts> = {}, clock: () => number = Date.now): Language {
  const base = locale.split("-")[0] ?? "en";
  const given = (name: string) => (typeof labels[name] === "object" ? labels[name] : {});
  const forAll = Object.fromEntries(Object.entries(labels).filter(([, value]) => typeof value === "string")) as Texts;
  const of = (name: string): Texts => ({ ...TEXTS[name], ...more[name], ...given(name) });
  const texts: Texts = { ...of("en"), ...of(base), ...forAll };
  const known = base in TEXTS || base in labels ? locale : "en";
  const plural = new Intl.PluralRules(known);
  const numbers = new Intl.NumberFormat(known);
  const dates = new Intl.DateTimeFormat(known, { dateStyle: "medium", timeStyle: "medium" });
  const clocks = new Intl.DateTimeFormat(known, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });
  const relative = new Intl.RelativeTimeFormat(known, { numeric: "auto", style: "short" });
  const number = (value: number, options?: Intl.NumberFormatOptions) =>
    options ? new Intl.NumberFormat(known, options).format(value) : numbers.format(value);
  const t: Translate = (key, values = {}) => {
    const counted = typeof values.count === "number" ? texts[`${key}_${plural.select(values.count)}`] : undefined;
    const text = counted ?? texts[key] ?? texts[`${key}_other`] ?? key;
    return text.replace(/\{(\w+)\}/g, (all, name: string) => {
      const value = values[name];
      return value === undefined ? all : typeof value === "number" ? number(value) : value;
    });
  };
  return {
    locale: known,
    extend: (further) => language(locale, labels, { ...more, ...further }, clock),
    t,
    has: (key) => key in texts,
    number,
    dateTime: (at) => dates.format(typeof at === "string" ? Date.parse(at) : at),
    clock: (at) => clocks.format(typeof at === "string" ? Date.parse(at) : at),
    now: clock,
    ago: (at, now = clock()) => {
      const seconds = ((typeof at === "string" ? Date.parse(at) : at) - now) / 1000;
      const steps: [Intl.RelativeTimeFormatUnit, number][] = [["day", 86_400], ["hour", 3_600], ["minute", 60]];
      for (const [unit, size] of steps) {
        if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
      }
      return relative.format(Math.trunc(seconds), "second");
    },
    duration: (ms) => {
      const unit = (value: number, name: string, digits = 0) =>
        number(value, { style: "unit", unit: name, unitDisplay: "narrow", maximumFractionDigits: digits });
      if (ms < 1_000) return unit(Math.max(0, Math.round(ms)), "millisecond");
      if (ms < 60_000) return unit(ms / 1_000, "second", ms < 10_000 ? 1 : 0);
      if (ms < 3_600_000) return `${unit(Math.floor(ms / 60_000), "minute")} ${unit(Math.floor((ms % 60_000) / 1_000), "second")}`;
      if (ms < 86_400_000) return `${unit(Math.floor(ms / 3_600_000), "hour")} ${unit(Math.floor((ms % 3_600_000) / 60_000), "minute")}`;
      return `${unit(Math.floor(ms / 86_400_000), "day")} ${unit(Math.floor((ms % 86_400_000) / 3_600_000), "hour")}`;
    },
  };
}
