import { createContext, type ReactNode, useContext } from "react";
import type { ListName, Records } from "../../api/records";
import type { Caller, Json, JsonObject } from "../../api/types";
import type { Language } from "../../i18n/texts";
import type { Reading } from "../../kit/kit";
import type { Option } from "../../kit/Picker";

/** What the functions of a collection can use. */
export interface Context extends Language {
  me: Caller;
  records: Records;
  /** What `prepare` has read, such as the groups to choose from. */
  choices: Record<string, JsonObject[]>;
  /** How far they are read; absent where a form waits for them. */
  reading?: Reading;
}

export interface Column<T> {
  text: string;
  width: string;
  /** Left out where there is little room. */
  wide?: boolean;
  show: (one: T, context: Context) => ReactNode;
}

export interface FormOf<T> {
  /** The fields for this value: a choice can change which follow. `before` is null in a new record. */
  schema: (value: JsonObject, context: Context, before: T | null) => JsonObject;
  /** The value that a form starts with. */
  value: (before: T, context: Context) => JsonObject;
  /** The body of the request; the default is the value itself. */
  body?: (value: JsonObject) => JsonObject;
  /** Whether a change of a record merges into its objects (RFC 7396), or replaces them. */
  merges?: boolean;
  /** The field of an issue of the server, if it is another one than its path says. */
  pointer?: (pointer: string) => string;
}

/** One kind of records: a list of them, the details of one, and how it is made, changed and removed. */
export interface Collection<T> {
  list: ListName;
  /** The kinds of the change stream that report these records; without them, the list is read again now and then. */
  kinds?: string[];
  icon: string;
  id: (one: T) => string;
  name: (one: T, context: Context) => string;
  columns: Column<T>[];
  filters?: (context: Context) => { name: string; text: string; none?: string; options: [string, string][] }[];
  /** A filter by a person. */
  personFilter?: (context: Context) => { name: string; text: string; none: string } | null;
  /** Records of people: one is found by name. */
  findsPeople?: { text: string };
  /** The people whose ids a record has. */
  people?: (one: T) => string[];
  prepare?: (records: Records, me: Caller) => Promise<Record<string, JsonObject[]>>;
  mayChange: (me: Caller) => boolean;
  /** Of those who may change some records, who may change this one. */
  mayChangeOne?: (one: T, me: Caller) => boolean;
  /** False for records that are only made and removed. */
  canEdit?: boolean;
  canRemove?: (one: T) => boolean;
  /** The text of the button and of the question before a removal. */
  remove?: { text: string; ask: string; hint: string };
  form?: FormOf<T>;
  /** A text of the response to a create that is never shown again. */
  secret?: (made: JsonObject) => string | null;
  /** The field of a new record that has the text, and what it is for. */
  secretHint?: string;
  details: (one: T, context: Context) => [string, ReactNode][];
  /** What else is shown of a record, below its details. */
  Extra?: (props: { one: T; context: Context; mayChange: boolean; reload: () => void; onRemoved: () => void }) => ReactNode;
}

export const RecordContext = createContext<Context | null>(null);

/** The context of the form that the input is in. */
export const useRecordContext = () => useContext(RecordContext)!;

export const text = (value: Json | undefined): string => (typeof value === "string" ? value : "");

export const memberName = (one: { name?: unknown; email?: unknown; userId?: unknown }) => String(one.name || one.email || one.userId || "");

/** People as choices: by name, with the address beside it. */
export const optionsOf = (people: { name?: unknown; email?: unknown; userId?: unknown }[]): Option[] =>
  people.map((one) => ({ key: String(one.userId), title: memberName(one), ...(one.name && one.email ? { hint: String(one.email) } : {}) }));

/** Whether the caller has a role that administers the organization. */
export const isAdmin = (me: Caller) => me.role === "admin" || me.role === "owner";
