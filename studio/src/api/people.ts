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

/** Reads the people that a choice offers: at most `MOST_PEOPLE`, of those whose user id, name or e-mail contains the text. */
export const peopleOf = (client: Client) => async (text = ""): Promise<(Member & JsonObject)[]> =>
  (await client.get<{ members: (Member & JsonObject)[] }>("/api/v1/members", { q: text.slice(0, 200), pageSize: MOST_PEOPLE })).members;
