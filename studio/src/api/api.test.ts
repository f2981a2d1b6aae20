import { describe, expect, it, vi } from "vitest";
import { pathOf, routeOf } from "../app/router";
import { language, merged } from "../i18n/texts";
import de from "../i18n/de.json";
import en from "../i18n/en.json";
import { brief, visible } from "../kit/safe";
import { Api } from "./api";
import { Client, expiryOf } from "./client";
import { follow, FrameParser } from "./sse";

describe("FrameParser", () => {
  const text = ":hello\n\nid: 1\ndata: {\"a\":1}\n\nid: 2\r\ndata: x\r\ndata: y\r\n\r\nid:3\ndata:last\n\n";
  it("gives the same frames for every cut of the text", () => {
    const whole = new FrameParser().push(text);
    expect(whole).toEqual([{ id: "1", data: '{"a":1}' }, { id: "2", data: "x\ny" }, { id: "3", data: "last" }]);
    for (let at = 0; at <= text.length; at++) {
      const parser = new FrameParser();
      expect([...parser.push(text.slice(0, at)), ...parser.push(text.slice(at))]).toEqual(whole);
    }
  });
});

describe("follow", () => {
  /** When a stream was opened in a minute, in milliseconds, if each of them is cut after `ms`. */
  async function opened(ms: number): Promise<number[]> {
    const listeners = { addEventListener: () => undefined, removeEventListener: () => undefined };
    vi.useFakeTimers();
    vi.stubGlobal("document", { hidden: false, ...listeners });
    for (const [name, stub] of Object.entries(listeners)) vi.stubGlobal(name, stub);
    const [began, found]: [number, number[]] = [Date.now(), []];
    const open = async () => {
      found.push(Date.now() - began);
      return new Response(new ReadableStream({
        start: (stream) => {
          stream.enqueue(new TextEncoder().encode('data: {"kind":"hello"}\n\n'));
          setTimeout(() => stream.close(), ms);
        },
      }));
    };
    const end = follow({ client: { open } as unknown as Client, path: "/x", onFrames: () => false });
    await vi.advanceTimersByTimeAsync(60_000);
    end();
    vi.useRealTimers();
    vi.unstubAllGlobals();
    return found;
  }

  it("waits longer and longer for a stream that is always cut at once", async () => {
    const found = await opened(10);
    expect(found[1]).toBeLessThan(1_000);
    expect(found.length).toBeLessThan(15);
  });

  it("joins a stream at once that was open for a while", async () => {
    const found = await opened(10_000);
    expect(found.length).toBe(6);
  });
});

describe("Client", () => {
  const answer = (status: number) => new Response(JSON.stringify(status === 200 ? { ok: 1 } : { error: { message: "no", code: "X" } }), { status });

  it("requests a token once, keeps it, and once more after a 401", async () => {
    const sent: (string | null)[] = [];
    const statuses = [200, 401, 200];
    vi.stubGlobal("fetch", async (_: string, options: RequestInit) => {
      sent.push(new Headers(options.headers).get("Authorization"));
      return answer(statuses[sent.length - 1]!);
    });
    let made = 0;
    const getToken = async () => `t${++made}`;
    const client = new Client({ baseUrl: "/x/", getToken: () => getToken, onAuthRequired: () => expect.unreachable() });
    await client.get("/a");
    await client.get("/b");
    expect(sent).toEqual(["Bearer t1", "Bearer t1", "Bearer t2"]);
  });

  it("waits for a further token if there will be one, and does not repeat one that was refused", async () => {
    const [sent, tokens] = [[] as (string | null)[], ["old", "old", "new", "bad", "bad", "bad"]];
    vi.stubGlobal("fetch", async (_: string, options: RequestInit) => {
      sent.push(new Headers(options.headers).get("Authorization"));
      return answer(sent.at(-1) === "Bearer new" ? 200 : 401);
    });
    const getToken = async () => tokens.shift()!;
    const required = vi.fn(() => true);
    const client = () => new Client({ baseUrl: "", getToken: () => getToken, onAuthRequired: required });
    expect(await client().post("/a")).toEqual({ ok: 1 });
    await expect(client().get("/a")).rejects.toMatchObject({ status: 401 });
    expect(sent).toEqual(["old", "old", "new", "bad", "bad"].map((one) => `Bearer ${one}`));
    expect(required).toHaveBeenCalledTimes(2);
    vi.unstubAllGlobals();
  });

  it("calls `getToken` once for requests at the same time, before the first and after a refusal", async () => {
    const sent: (string | null)[] = [];
    vi.stubGlobal("fetch", async (_: string, options: RequestInit) => {
      sent.push(new Headers(options.headers).get("Authorization"));
      return answer(sent.at(-1) === "Bearer t1" ? 401 : 200);
    });
    let made = 0;
    const getToken = async () => `t${++made}`;
    const client = new Client({ baseUrl: "", getToken: () => getToken, onAuthRequired: () => expect.unreachable() });
    await Promise.all([client.get("/a"), client.get("/b"), client.get("/c")]);
    expect(made).toBe(2);
    expect(sent.sort()).toEqual(["t1", "t1", "t1", "t2", "t2", "t2"].map((one) => `Bearer ${one}`));
    vi.unstubAllGlobals();
  });

  it("keeps the newer token when an older one is refused late", async () => {
    const late = Promise.withResolvers<Response>();
    const sent: string[] = [];
    vi.stubGlobal("fetch", async (url: string, options: RequestInit) => {
      const token = new Headers(options.headers).get("Authorization")!.slice(7);
      sent.push(`${url} ${token}`);
      return token === "t1" ? (url === "/late" ? late.promise : answer(401)) : answer(200);
    });
    let made = 0;
    const getToken = async () => `t${++made}`;
    const client = new Client({ baseUrl: "", getToken: () => getToken, onAuthRequired: () => expect.unreachable() });
    const waiting = client.get("/late");
    await client.get("/a");
    late.resolve(answer(401));
    await waiting;
    expect(sent).toEqual(["/late t1", "/a t1", "/a t2", "/late t2"]);
    vi.unstubAllGlobals();
  });

  it.each([["throws", () => { throw new Error("no"); }], ["rejects", () => Promise.reject(new Error("no"))]])(
    "calls `getToken` again after it %s", async (_, fail) => {
      vi.stubGlobal("fetch", async () => answer(200));
      let made = 0;
      const getToken = () => (++made === 1 ? fail() : "t");
      const client = new Client({ baseUrl: "", getToken: () => getToken, onAuthRequired: () => expect.unreachable() });
      const first = await Promise.allSettled([client.get("/a"), client.get("/b")]);
      expect(first.map((one) => one.status)).toEqual(["rejected", "rejected"]);
      expect([made, await client.get("/a"), made]).toEqual([1, { ok: 1 }, 2]);
      vi.unstubAllGlobals();
    },
  );

  it("counts by the clock of the server, if that of the computer is wrong", async () => {
    const answers = [3_600_000, 2_000, null];
    vi.stubGlobal("fetch", async () => {
      const ahead = answers.shift();
      return new Response("{}", ahead == null ? {} : { headers: { Date: new Date(Date.now() + ahead).toUTCString() } });
    });
    const client = new Client({ baseUrl: "", getToken: () => undefined, onAuthRequired: () => expect.unreachable() });
    await client.get("/a");
    expect(Math.abs(client.now() - Date.now() - 3_600_000)).toBeLessThan(2_000);
    await client.get("/a");
    expect(client.ahead).toBe(0);
    await client.get("/a");
    expect(client.ahead).toBe(0);
    vi.unstubAllGlobals();
  });

  it.each([429, 503])("reads a workflow again whose response was %d", async (status) => {
    const statuses = [status, 200];
    vi.stubGlobal("fetch", async () => answer(statuses.shift()!));
    const api = new Api(new Client({ baseUrl: "", getToken: () => undefined, onAuthRequired: () => expect.unreachable() }));
    expect([await api.workflow(7), await api.workflow(7)]).toEqual([null, { ok: 1 }]);
    vi.unstubAllGlobals();
  });

  it("reads addresses of its own server only", async () => {
    const sent: string[] = [];
    vi.stubGlobal("location", { href: "https://host.test/studio/runs/1" });
    vi.stubGlobal("fetch", async (url: string) => {
      sent.push(url);
      return answer(200);
    });
    const client = (baseUrl: string) => new Client({ baseUrl, getToken: () => () => "secret", onAuthRequired: () => expect.unreachable() });
    await client("https://host.test/x").at("/x/agent/v1/runs/1/values?at=2");
    await client("").at("/agent/v1/runs/1/values");
    for (const address of [".evil.test/a", "//evil.test/a", "https://evil.test/a", "@evil.test/a", "/other/a"]) {
      await client("https://host.test/x").at(address).catch(() => null);
      await client("").at(address).catch(() => null);
    }
    expect(sent.filter((url) => new URL(url, "https://host.test").host !== "host.test")).toEqual([]);
    expect(sent.slice(0, 2)).toEqual(["https://host.test/x/agent/v1/runs/1/values?at=2", "/agent/v1/runs/1/values"]);
    vi.unstubAllGlobals();
  });

  it("reports a missing credential and throws the error of the server", async () => {
    vi.stubGlobal("fetch", async () => answer(401));
    const required = vi.fn();
    const client = new Client({ baseUrl: "", getToken: () => undefined, onAuthRequired: required });
    await expect(client.get("/a")).rejects.toMatchObject({ status: 401, message: "no" });
    expect(required).toHaveBeenCalledOnce();
  });

  it("sends a request whose response was lost again with its key, and another one with a new key", async () => {
    const keys: (string | null)[] = [];
    const answers = [null, answer(503), answer(200), answer(200), answer(409), answer(200)];
    vi.stubGlobal("fetch", async (_: string, options: RequestInit) => {
      keys.push(new Headers(options.headers).get("Idempotency-Key"));
      return answers[keys.length - 1] ?? Promise.reject(new TypeError("lost"));
    });
    const client = new Client({ baseUrl: "", getToken: () => undefined, onAuthRequired: () => expect.unreachable() });
    for (const _ of answers) await client.once("/runs", { input: 1 }).catch(() => null);
    await client.once("/runs", { input: 2 }).catch(() => null);
    await client.once("/runs", { input: 1 }).catch(() => null);
    const [first, second, third, fourth, fifth, sixth, seventh, eighth] = keys;
    expect([second, third]).toEqual([first, first]);
    expect(new Set([third, fourth, fifth, sixth, seventh, eighth]).size).toBe(6);
  });

  it("sends the same change once while it is under way, and each read", async () => {
    const sent: string[] = [];
    vi.stubGlobal("fetch", async (path: string, { method, body }: RequestInit) => {
      sent.push([method, path, body instanceof Blob ? "file" : body].filter(Boolean).join(" "));
      return answer(200);
    });
    const client = new Client({ baseUrl: "", getToken: () => undefined, onAuthRequired: () => expect.unreachable() });
    const all = (...calls: (() => Promise<unknown>)[]) => Promise.all(calls.flatMap((call) => [call(), call()]));
    const [first, again] = await all(() => client.tagged("DELETE", "/a"), () => client.post("/b", { x: 1 }), () => client.once("/c", {}), () => client.post("/b", { x: 2 }));
    expect(again).toBe(first);
    expect(sent.splice(0)).toEqual(["DELETE /a", 'POST /b {"x":1}', "POST /c {}", 'POST /b {"x":2}']);
    // A read after a change must not have what was read before it; files have no text to compare; a page that is closed ends its requests.
    await all(() => client.get("/a"), () => client.read("/b", { x: 1 }), () => client.post("/c", new Blob(["a"])), () => client.tagged("PATCH", "/d", {}, { keepalive: true }));
    expect(sent.splice(0).sort()).toEqual(["GET /a", "GET /a", "PATCH /d {}", "PATCH /d {}", 'POST /b {"x":1}', 'POST /b {"x":1}', "POST /c file", "POST /c file"]);
    await client.post("/b", { x: 1 });
    await client.post("/b", { x: 1 });
    expect(sent).toHaveLength(2);
    vi.unstubAllGlobals();
  });

  it("reads the expiry of a JWT only", () => {
    expect(expiryOf(`a.${btoa('{"exp":12}')}.c`)).toBe(12);
    expect(expiryOf("svc_abc")).toBeNull();
    expect(expiryOf("a.%%%.c")).toBeNull();
  });
});

describe("texts", () => {
  it("are complete in both languages, with the same values", () => {
    const names = (text: string) => (text.match(/\{\w+\}/g) ?? []).sort().join();
    expect(Object.keys(de).sort()).toEqual(Object.keys(en).sort());
    for (const [key, text] of Object.entries(en)) expect(names((de as Record<string, string>)[key]!), key).toBe(names(text));
  });

  it("count and can be replaced", () => {
    expect(language("en").t("runs.count", { count: 1 })).toBe("1 run");
    expect(language("de").t("runs.count", { count: 1_200 })).toBe("1.200 Läufe");
    expect(language("en", { "runs.title": "Jobs" }).t("runs.title")).toBe("Jobs");
    expect(language("fr").t("runs.title")).toBe("Runs");
  });

  it("show what cannot be seen", () => {
    expect(visible("a\u202eb\u200b")).toBe("a\\u202eb\\u200b");
    expect(brief("x".repeat(1_000_000), 10)).toBe("xxxxxxxxxx…");
  });
});

describe("routes", () => {
  it("are found again from their paths", () => {
    for (const id of ["1", "a/b", "%2F", "ü?#"]) {
      expect(routeOf(pathOf({ page: "run", id }))).toEqual({ page: "runs", id, query: {} });
      expect(routeOf(pathOf({ page: "administration", section: "hooks", id }))).toEqual({ page: "hooks", id, query: {} });
    }
    expect(pathOf({ page: "runs", query: { status: "error" } })).toBe("runs?status=error");
    expect(routeOf("runs?status=error")).toEqual({ page: "runs", id: null, query: { status: "error" } });
  });
});

describe("texts", () => {
  it("are replaced for all languages or for one, and a further language is English where it has none", () => {
    const labels = merged({ "nav.runs": "Jobs", fr: { "nav.inbox": "A", "nav.skills": "B" } }, { fr: { "nav.inbox": "Boîte" }, de: { "nav.chat": "Plausch" } });
    const of = (locale: string) => ["nav.runs", "nav.inbox", "nav.skills", "nav.chat"].map((key) => language(locale, labels).t(key));
    expect(of("fr-FR")).toEqual(["Jobs", "Boîte", "B", "Chat"]);
    expect(of("de")).toEqual(["Jobs", "Eingang", "Skills", "Plausch"]);
    expect([language("fr-FR", labels).locale, language("it", labels).locale]).toEqual(["fr-FR", "en"]);
  });
});
