import { describe, expect, it } from "vitest";
import { ApiError } from "../api/client";
import { problemOf } from "./context";
import { Paging } from "./paging";

interface Row {
  id: number;
}

/** A list on the server, in pages of two; each request waits for `answer`. */
class Listing {
  ids = [1, 2, 3, 4, 5];
  hidden = new Set<number>();
  tokens: (string | null)[] = [];
  fails = false;
  private readonly waiting: (() => void)[] = [];

  load = async (token: string | null) => {
    this.tokens.push(token);
    await new Promise<void>((resolve) => this.waiting.push(resolve));
    if (this.fails) throw new ApiError(503, "busy");
    const from = token === null ? 0 : this.ids.indexOf(Number(token)) + 1;
    const found = this.ids.slice(from, from + 2);
    const next = from + 2 < this.ids.length ? String(found.at(-1)) : null;
    return { rows: found.filter((id) => !this.hidden.has(id)).map((id): Row => ({ id })), next };
  };

  answer = async () => {
    this.waiting.shift()?.();
    for (let tick = 0; tick < 5; tick++) await Promise.resolve();
  };
}

async function opened(listing: Listing, pages = 1): Promise<Paging<Row>> {
  const paging = new Paging(listing.load, (row) => String(row.id));
  void paging.refresh();
  await listing.answer();
  for (let page = 1; page < pages; page++) {
    void paging.more();
    await listing.answer();
  }
  return paging;
}

const idsOf = (paging: Paging<Row>) => paging.current().rows.map((row) => row.id);

describe("the pages of a list", () => {
  it("are requested one at a time, and each once", async () => {
    const listing = new Listing();
    const paging = await opened(listing);
    for (let time = 0; time < 5; time++) void paging.more();
    expect(listing.tokens).toEqual([null, "2"]);
    await listing.answer();
    expect(idsOf(paging)).toEqual([1, 2, 3, 4]);
  });

  it("each error is passed on once, and none after the end", async () => {
    const listing = new Listing();
    const statuses: number[] = [];
    const paging = new Paging<Row>(listing.load, (row) => String(row.id), (error) => {
      statuses.push((error as ApiError).status);
      return problemOf(error);
    });
    listing.fails = true;
    void paging.refresh();
    await listing.answer();
    expect([statuses, paging.current().problem?.status]).toEqual([[503], 503]);
    paging.reload();
    paging.stop();
    await listing.answer();
    expect(statuses).toEqual([503]);
  });

  it("a page that failed is requested again by the user only", async () => {
    const listing = new Listing();
    const paging = await opened(listing);
    listing.fails = true;
    void paging.more();
    await listing.answer();
    for (let time = 0; time < 5; time++) void paging.more();
    expect(listing.tokens).toEqual([null, "2"]);
    expect(paging.current().failed?.status).toBe(503);
    expect(idsOf(paging)).toEqual([1, 2]);
    listing.fails = false;
    paging.retry();
    await listing.answer();
    expect(idsOf(paging)).toEqual([1, 2, 3, 4]);
    expect(paging.current().failed).toBe(null);
  });

  it("a refresh of the beginning does not request a page that failed", async () => {
    const listing = new Listing();
    const paging = await opened(listing);
    listing.fails = true;
    void paging.more();
    await listing.answer();
    listing.fails = false;
    void paging.refresh();
    await listing.answer();
    void paging.more();
    expect(listing.tokens).toEqual([null, "2", null]);
  });

  it("a refresh reads all pages that are shown and keeps the rows until then", async () => {
    const listing = new Listing();
    const paging = await opened(listing, 2);
    listing.ids = [0, 1, 3, 4, 5];
    void paging.refresh();
    await listing.answer();
    expect(idsOf(paging)).toEqual([1, 2, 3, 4]);
    await listing.answer();
    expect(idsOf(paging)).toEqual([0, 1, 3, 4]);
    expect(paging.current().next).toBe("4");
  });

  it("a refresh that fails keeps the rows", async () => {
    const listing = new Listing();
    const paging = await opened(listing, 2);
    listing.fails = true;
    void paging.refresh();
    await listing.answer();
    expect(idsOf(paging)).toEqual([1, 2, 3, 4]);
    expect(paging.current().problem?.status).toBe(503);
  });

  it("several changes during a refresh make one more refresh", async () => {
    const listing = new Listing();
    const paging = await opened(listing);
    for (let time = 0; time < 4; time++) void paging.refresh();
    await listing.answer();
    await listing.answer();
    await listing.answer();
    expect(listing.tokens).toEqual([null, null, null]);
  });

  it("a change while the next page is read is not forgotten", async () => {
    const listing = new Listing();
    const paging = await opened(listing);
    void paging.more();
    listing.ids = [1, 2, 3, 4, 6];
    listing.hidden.add(2);
    void paging.refresh();
    await listing.answer();
    await listing.answer();
    await listing.answer();
    expect(listing.tokens).toEqual([null, "2", null, "2"]);
    expect(idsOf(paging)).toEqual([1, 3, 4]);
  });

  it("pages without rows are passed over", async () => {
    const listing = new Listing();
    listing.hidden = new Set([1, 2, 3, 4]);
    const paging = await opened(listing);
    expect(paging.current().loading).toBe(true);
    await listing.answer();
    await listing.answer();
    expect(idsOf(paging)).toEqual([5]);
    expect(paging.current()).toMatchObject({ next: null, loading: false });
  });

  it("a row that comes twice is shown once", async () => {
    const listing = new Listing();
    const paging = await opened(listing);
    listing.ids = [0, 1, 2, 1, 3];
    void paging.more();
    await listing.answer();
    expect(idsOf(paging)).toEqual([1, 2, 3]);
  });

  it("an answer after the end is ignored", async () => {
    const listing = new Listing();
    const paging = new Paging(listing.load, (row: Row) => String(row.id));
    void paging.refresh();
    paging.stop();
    await listing.answer();
    expect(paging.current()).toMatchObject({ rows: [], loading: true });
  });
});

describe("a long list", () => {
  const long = async () => {
    const listing = new Listing();
    listing.ids = Array.from({ length: 20 }, (_, index) => index + 1);
    return { listing, paging: await opened(listing, 6) };
  };

  it("requests nothing for a change, and says that it is outdated", async () => {
    const { listing, paging } = await long();
    for (let time = 0; time < 5; time++) void paging.refresh();
    expect([listing.tokens.length, paging.current().isOutdated, paging.current().rows.length]).toEqual([6, true, 12]);
  });

  it("is read again from its beginning on demand", async () => {
    const { listing, paging } = await long();
    listing.ids = [0, ...listing.ids];
    void paging.refresh();
    paging.renew();
    await listing.answer();
    expect([listing.tokens.length, idsOf(paging), paging.current().isOutdated]).toEqual([7, [0, 1], false]);
    void paging.refresh();
    await listing.answer();
    expect(listing.tokens.length).toBe(8);
  });

  it("costs no more for its next page, the longer it is", async () => {
    const listing = new Listing();
    listing.ids = Array.from({ length: 200 }, (_, index) => index + 1);
    let calls = 0;
    const paging = new Paging(listing.load, (row: Row) => String((calls++, row.id)));
    void paging.refresh();
    await listing.answer();
    for (let page = 1; page < 100; page++) {
      void paging.more();
      await listing.answer();
    }
    expect([paging.current().rows.length, calls]).toEqual([200, 200]);
  });

  it("begins where it was left, and knows its rows", async () => {
    const { listing, paging } = await long();
    paging.top.current = { index: 7, key: "8", offset: 3 };
    paging.stop();
    const again = new Paging(listing.load, (row: Row) => String(row.id), undefined, paging.left());
    void again.refresh();
    expect([idsOf(again).length, again.top.current?.key, again.current().loading, again.current().isOutdated]).toEqual([12, "8", false, true]);
    listing.ids = [0, ...listing.ids];
    void again.more();
    await listing.answer();
    expect(idsOf(again)).toEqual(Array.from({ length: 14 }, (_, index) => index + 1));
  });
});
