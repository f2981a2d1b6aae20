import type { Keeper } from "./editor";

/**
 * Keeps the unsaved changes of one workflow in this browser, until the server has them. Nothing else of the studio is
 * stored there, and never a credential. A page without storage keeps none.
 */
export function keeperOf(baseUrl: string, id: number): Keeper {
  const key = `studio-draft ${baseUrl} ${id}`;
  const storage = () => {
    try {
      return globalThis.localStorage;
    } catch {
      return null;
    }
  };
  return {
    get: () => storage()?.getItem(key) ?? null,
    set: (text) => {
      try {
        if (text === null) storage()?.removeItem(key);
        else storage()?.setItem(key, text);
      } catch {
        // the storage is full: the change is still saved on the server
      }
    },
  };
}
