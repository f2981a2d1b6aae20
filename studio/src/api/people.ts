import type { Client } from "./client";
import type { JsonObject } from "./types";

export interface Member {
  userId: string;
  email: string | null;
  name: string | null;
  role: string;
  groups: string[];
}

/** A page of people; further ones are found by a search. */
export const MOST_PEOPLE = 100;

/** The names of people, each read once by its id; of somebody unknown the id. */
export class Names {
  private readonly names = new Map<string, string>();
  private readonly reads = new Map<string, Promise<void>>();
  private readonly listeners = new Set<() => void>();

  constructor(private readonly client: Client) {}

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };
  /** How many are known. */
  size = () => this.names.size;

  known(userId: string): string | undefined {
    return this.names.get(userId);
  }

  read(userId: string): Promise<void> {
    const read = async () => {
      const found = await this.client.get<Member>(`/api/v1/members/${encodeURIComponent(userId)}`).catch(() => null);
      this.names.set(userId, found?.name || found?.email || userId);
      this.listeners.forEach((listener) => listener());
    };
    if (!this.reads.has(userId)) this.reads.set(userId, read());
    return this.reads.get(userId)!;
  }
}

/** Reads the people that a choice offers: at most `MOST_PEOPLE`, of those whose user id, name or e-mail contains the text. */
export const peopleOf = (client: Client) => async (text = ""): Promise<(Member & JsonObject)[]> =>
  (await client.get<{ members: (Member & JsonObject)[] }>("/api/v1/members", { q: text.slice(0, 200), pageSize: MOST_PEOPLE })).members;
