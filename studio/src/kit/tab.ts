/** What the tab keeps: in `sessionStorage` or, where the browser denies that to the page, in memory until it is closed. */

const memory = new Map<string, string>();

export function kept(key: string): string | null {
  const own = memory.get(key);
  if (own !== undefined) return own;
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null;
  }
}

export function keep(key: string, value: string): void {
  try {
    sessionStorage.setItem(key, value);
    memory.delete(key);
  } catch {
    memory.set(key, value);
  }
}

export function forget(key: string): void {
  memory.delete(key);
  try {
    sessionStorage.removeItem(key);
  } catch {
    // nothing is in it
  }
}
