/** Characters that change the order or the look of other text without being seen. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The text with its invisible characters as escapes, so that what is shown is what is there. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Those of them that change the order of other text or have no look at all: what people write needs the others. */
const DECEPTIVE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u206f]/g;

/** Text of a conversation: joined emoji and marks of right-to-left scripts stay as they are. */
export function readable(text: string): string {
  return text.replace(DECEPTIVE, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** One line of at most `most` characters. */
export function brief(text: string, most = 200): string {
  const one = visible(text.slice(0, most + 1).replace(/\s+/g, " "));
  return text.length > most ? `${one.slice(0, most)}…` : one;
}
