import { randomId } from "../api/client";
import type { Caller } from "../api/types";
import type { Keeper } from "./editor";

/**
 * Keeps the unsaved changes of one workflow in this browser, until the server has them: those of each page by
 * themselves, and only for the user who made them. A credential is never stored there.
 * A page without storage keeps none.
 */
export function keeperOf(baseUrl: string, id: number, me: () => Promise<Pick<Caller, "orgUuid" | "userId">>): Keeper {
  // The time leads: the latest page is the last one.
  const page = `${Date.now()} ${randomId()}`;
  let all: string | null = null;
  let found: { key: string; text: string } | null = null;
  const storage = () => {
    try {
      return all === null ? null : globalThis.localStorage;
    } catch {
      return null;
    }
  };
  return {
    open: async () => {
      const user = await me().catch(() => null);
      all = user && `studio-draft ${JSON.stringify([baseUrl, user.orgUuid, user.userId, id])} `;
    },
    get: () => {
      const kept = storage();
      const key = Object.keys(kept ?? {}).filter((one) => one.startsWith(all!)).sort().at(-1);
      const text = key === undefined ? null : (kept?.getItem(key) ?? null);
      found = key === undefined || text === null ? null : { key, text };
      return text;
    },
    set: (text) => {
      try {
        const kept = storage();
        if (text === null) kept?.removeItem(all + page);
        else kept?.setItem(all + page, text);
        // What was restored is in this text, or is settled; its page may be open, and have more meanwhile.
        if (found && found.key !== all + page && kept?.getItem(found.key) === found.text) kept.removeItem(found.key);
        found = null;
      } catch {
        // the storage is full: the change is still saved on the server
      }
    },
  };
}
