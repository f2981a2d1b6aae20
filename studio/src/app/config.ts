import type { Labels } from "../i18n/texts";
import type { OAuth } from "./session";
import type { ShellConfig } from "./Shell";

export interface Config extends ShellConfig {
  /** Of the tags and events of the elements. */
  prefix: string;
  theme: Record<string, string>;
  labels: Labels;
  locale: string | null;
  baseUrl: string;
  oauth: OAuth | null;
  /** The page of a chat instead of the studio: its interface is the last part of the address. */
  chat: boolean;
}

/** The language of the pages: that of the operator's setting, else the browser's. */
export const localeOf = (config: Config) => config.locale ?? navigator.language;

