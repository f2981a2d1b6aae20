import type { Structure } from "../api/types";

const MOST = 200;
const MERGED_MS = 1_000;

/** The states of a document that can be undone and done again. Changes with one key in quick succession are one step. */
export class History {
  private past: Structure[] = [];
  private future: Structure[] = [];
  private latest: { key: string; at: number } | null = null;

  constructor(public current: Structure, private readonly now: () => number = Date.now) {}

  get canUndo(): boolean {
    return this.past.length > 0;
  }

  get canRedo(): boolean {
    return this.future.length > 0;
  }

  /** Make `next` the current state; false if it is the current one. */
  change(next: Structure, key?: string): boolean {
    if (next === this.current) return false;
    const at = this.now();
    const merged = key !== undefined && this.latest?.key === key && at - this.latest.at < MERGED_MS;
    if (!merged) {
      this.past.push(this.current);
      if (this.past.length > MOST) this.past.shift();
    }
    this.latest = key === undefined ? null : { key, at };
    this.future = [];
    this.current = next;
    return true;
  }

  undo(): boolean {
    const before = this.past.pop();
    if (!before) return false;
    this.future.push(this.current);
    this.current = before;
    this.latest = null;
    return true;
  }

  redo(): boolean {
    const after = this.future.pop();
    if (!after) return false;
    this.past.push(this.current);
    this.current = after;
    this.latest = null;
    return true;
  }
}
