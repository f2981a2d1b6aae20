import { beforeEach, describe, expect, it, vi } from "vitest";
import { keeperOf } from "./keeper";

/** The storage of a browser, whose entries are its keys. */
class Kept {
  getItem(key: string) {
    return (this as unknown as Record<string, string>)[key] ?? null;
  }
  setItem(key: string, text: string) {
    (this as unknown as Record<string, string>)[key] = text;
  }
  removeItem(key: string) {
    delete (this as unknown as Record<string, string>)[key];
  }
}

async function page(userId = "ada", id = 7) {
  const keeper = keeperOf("https://a.test", id, async () => ({ orgUuid: "o", userId }));
  await keeper.open();
  return keeper;
}

describe("what is not saved", () => {
  beforeEach(() => void vi.stubGlobal("localStorage", new Kept()));
  const texts = () => Object.values(localStorage);

  it("is restored for its user and workflow only", async () => {
    (await page()).set("mine");
    expect([(await page("bob")).get(), (await page("ada", 8)).get(), (await page()).get()]).toEqual([null, null, "mine"]);
  });

  it("is kept by each page, until that page or one that restored it has saved", async () => {
    const [first, other] = [await page(), await page()];
    first.set("first");
    other.set("other");
    other.set(null);
    expect(texts()).toEqual(["first"]);
    const second = await page();
    expect(second.get()).toBe("first");
    second.set("first and more");
    expect(texts()).toEqual(["first and more"]);
    const third = await page();
    expect(third.get()).toBe("first and more");
    second.set("and still more");
    third.set(null);
    expect(texts()).toEqual(["and still more"]);
  });

  it("is kept of nobody who is not known, and without a storage", async () => {
    const unknown = keeperOf("", 7, async () => Promise.reject(new Error("no")));
    await unknown.open();
    unknown.set("x");
    expect([unknown.get(), texts()]).toEqual([null, []]);
    vi.stubGlobal("localStorage", undefined);
    const one = await page();
    one.set("x");
    expect(one.get()).toBeNull();
  });
});
