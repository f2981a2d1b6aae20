import { expect, test } from "vitest";
import { parts, unitOf } from "./TimeSpan";

test("a field is a time by its name", () => {
  for (const name of ["seconds", "timeoutSeconds", "ttl_seconds"]) expect(unitOf(name), name).toBe(1_000);
  for (const name of ["ms", "waitMs", "wait_ms", "timeoutMilliseconds"]) expect(unitOf(name), name).toBe(1);
  for (const name of ["items", "params", "secondsLeft", "forms", "amount"]) expect(unitOf(name), name).toBeNull();
});

test("a time in larger units is exact", () => {
  expect(parts(9_000_000)).toEqual([["hour", 2], ["minute", 30]]);
  expect(parts(90_061_001)).toEqual([["day", 1], ["hour", 1], ["minute", 1], ["second", 1], ["millisecond", 1]]);
  expect(parts(0.1 * 3 * 1_000)).toEqual([["millisecond", 300]]);
});
