import type { Scheduled } from "../../api/records";

const WEEKS = 4;
const DAY = 86_400_000;

export interface Slot {
  of: Scheduled;
  /** The first time of that day, in milliseconds, and how many there are. */
  at: number;
  count: number;
}

export interface Day {
  /** Midnight, where the reader is. */
  at: number;
  slots: Slot[];
}

/** The days of four weeks from the Monday before `now`, with what is planned: each schedule once a day. */
export function calendarOf(schedules: Scheduled[], now: number): Day[] {
  const first = new Date(now);
  first.setHours(0, 0, 0, 0);
  first.setDate(first.getDate() - ((first.getDay() + 6) % 7));
  const days: Day[] = Array.from({ length: WEEKS * 7 }, (_, index) => {
    const at = new Date(first);
    at.setDate(first.getDate() + index);
    return { at: at.getTime(), slots: [] };
  });
  for (const one of schedules) {
    for (const { at: text } of one.nextRuns) {
      const at = Date.parse(text);
      // A day can have 23 or 25 hours: from the guess, at most one day further.
      const guess = Math.floor((at - days[0]!.at) / DAY);
      const day = [guess + 1, guess, guess - 1].map((index) => days[index]).find((found) => found && found.at <= at);
      if (!day || at >= days.at(-1)!.at + DAY) continue;
      const slot = day.slots.find((found) => found.of === one);
      if (slot) slot.count += 1;
      else day.slots.push({ of: one, at, count: 1 });
    }
  }
  for (const day of days) day.slots.sort((a, b) => a.at - b.at);
  return days;
}
