import { Icon } from "./icons";
import { visible } from "./safe";

/** Names that the server puts in backticks, within a line: the longest of a tool or node has 200 characters. */
const NAMED = /(?<!`)`([^`\s](?:[^`\n]{0,198}[^`\s])?)`(?!`)/;

/** A text of the server as text, with the names in its backticks as code. */
export function Named({ text }: { text: string }) {
  return <>{text.split(NAMED).map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}

/** The same where there is no code, as in the name of a button. */
export const unmarked = (text: string) => text.split(NAMED).join("");

/** Why the server refused what the user did, after what that means; nothing without a text. */
export function Refusal({ text, about }: { text: string | null | undefined; about?: string | undefined }) {
  if (!text) return null;
  return (
    <p className="problem" role="alert">
      <Icon name="error" />
      <span className="text">{about && <><b>{about}</b> · </>}<Named text={visible(text)} /></span>
    </p>
  );
}
