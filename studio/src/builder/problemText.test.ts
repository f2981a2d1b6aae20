import { expect, it } from "vitest";
import { language } from "../i18n/texts";
import de from "./de.json";
import en from "./en.json";
import { problemText } from "./problemText";

const words = (locale: string, message: string) => problemText(message, language(locale).extend({ en, de }));

it("says problems in the language of the page", () => {
  expect(Object.keys(de)).toEqual(Object.keys(en));
  const unknown = "unknown handle `yes`: use `error` or none";
  expect(words("en", unknown)).toBe("A connection is for the case `yes`, which does not occur here. Possible: `error`, Next");
  expect(words("de", unknown)).toBe("Eine Verbindung gilt im Fall `yes`, den es hier nicht gibt. Möglich: `error`, Danach");
  expect(words("de", "unknown handle `yes`: use one of its 30 handles")).toContain("Möglich: 30 Fälle");
  expect(words("de", "`maxConcurrency` has no effect without `forEach`")).toBe("`Höchstens gleichzeitig` wirkt nur zusammen mit `Für jeden Eintrag von`");
  expect(words("de", "`message` is missing")).toBe("`message` ist nötig"); // a parameter of a tool
});

it("says an unknown problem in the words of the server, with the names of fields", () => {
  expect(words("de", "`timeoutSeconds` and node `message` collide")).toBe("`Zeitgrenze in Sekunden` and node `message` collide");
});
