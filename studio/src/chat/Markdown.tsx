import { Lexer, type Token, type Tokens } from "marked";
import { Fragment, memo, type ReactNode, useMemo, useState } from "react";
import { useLanguage } from "../i18n/context";
import { CopyButton } from "../kit/kit";
import { readable } from "../kit/safe";

/** What is longer or deeper is shown as it was written. */
const LONGEST = 50_000;
const DEEPEST = 20;
/** Quotes and lists within each other, for which the lexer calls itself. */
const NESTED = /(?:[>*+-] |>){60,}/;
const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

const decoded = (text: string) =>
  text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]+));/gi, (all, decimal?: string, hex?: string, name?: string) => {
    if (name) return ENTITIES[name.toLowerCase()] ?? all;
    const code = decimal ? Number(decimal) : Number.parseInt(hex ?? "", 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : all;
  });

/** The address of a link that can be followed: absolute, of the web or of e-mail; otherwise null. */
export function safeAddress(href: string): string | null {
  try {
    const url = new URL(decoded(href));
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** The tokens of a text; null for one that is shown as it was written. */
export function parse(text: string): Token[] | null {
  if (text.length > LONGEST || NESTED.test(text)) return null;
  try {
    return new Lexer({ gfm: true, breaks: true }).lex(text);
  } catch {
    return null; // nested too deeply
  }
}

/**
 * Markdown of a model as React elements, by the lexer of marked: no text becomes markup, so HTML is shown as text. Links
 * open a new tab; images are links, so that nothing is loaded from elsewhere.
 */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const tokens = useMemo(() => parse(text), [text]);
  return tokens ? <div className="md"><Blocks tokens={tokens} depth={0} /></div> : <div className="md"><Plain text={text} /></div>;
});

/** A text as it was written; of one that is very long, its beginning. */
export const Plain = memo(function Plain({ text }: { text: string }) {
  const { t } = useLanguage();
  const [all, setAll] = useState(false);
  const isCut = !all && text.length > LONGEST;
  return (
    <>
      <p className="text">{readable(isCut ? `${text.slice(0, LONGEST)}…` : text)}</p>
      {isCut && <div><button type="button" className="button small" onClick={() => setAll(true)}>{t("common.showAll")}</button></div>}
    </>
  );
});

function Blocks({ tokens, depth }: { tokens: Token[] | undefined; depth: number }): ReactNode {
  return tokens?.map((token, index) => <Fragment key={index}>{shown(token, depth + 1)}</Fragment>);
}

function shown(token: Token, depth: number): ReactNode {
  if (depth > DEEPEST) return readable(token.raw);
  const inner = <Blocks tokens={(token as Tokens.Generic).tokens} depth={depth} />;
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return <p className={`heading h${(token as Tokens.Heading).depth}`}>{inner}</p>;
    case "paragraph":
      return <p>{inner}</p>;
    case "text":
      return (token as Tokens.Text).tokens ? inner : readable(decoded((token as Tokens.Text).text));
    case "escape":
      return readable(decoded((token as Tokens.Escape).text));
    case "strong":
      return <strong>{inner}</strong>;
    case "em":
      return <em>{inner}</em>;
    case "del":
      return <del>{inner}</del>;
    case "br":
      return <br />;
    case "hr":
      return <hr />;
    case "codespan":
      return <code>{readable((token as Tokens.Codespan).text)}</code>;
    case "code":
      return <Code token={token as Tokens.Code} />;
    case "blockquote":
      return <blockquote>{inner}</blockquote>;
    case "checkbox":
      return (token as Tokens.Generic).checked ? "☑ " : "☐ ";
    case "list":
      return <List token={token as Tokens.List} depth={depth} />;
    case "table":
      return <Table token={token as Tokens.Table} depth={depth} />;
    case "link":
      return <Link href={(token as Tokens.Link).href}>{inner}</Link>;
    case "image": {
      const image = token as Tokens.Image;
      return <Link href={image.href}>{readable(decoded(image.text)) || readable(image.href)}</Link>;
    }
    default:
      return readable(token.raw);
  }
}

function Link({ href, children }: { href: string; children: ReactNode }) {
  const address = safeAddress(href);
  // The title shows where a link leads, whatever its text says.
  return address === null ? children : <a href={address} title={address} target="_blank" rel="noopener noreferrer nofollow">{children}</a>;
}

function Code({ token }: { token: Tokens.Code }) {
  return (
    <div className="block code" role="group" aria-label={readable(token.lang || "code")} tabIndex={0}>
      <CopyButton text={() => token.text} />
      <pre>{readable(token.text)}</pre>
    </div>
  );
}

function List({ token, depth }: { token: Tokens.List; depth: number }) {
  const items = token.items.map((item, index) => <li key={index}><Blocks tokens={item.tokens} depth={depth} /></li>);
  return token.ordered ? <ol start={token.start || 1}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ token, depth }: { token: Tokens.Table; depth: number }) {
  const cell = (one: Tokens.TableCell) => <Blocks tokens={one.tokens} depth={depth} />;
  return (
    <div className="tablebox" role="group" tabIndex={0}>
      <table>
        <thead><tr>{token.header.map((one, index) => <th key={index} scope="col">{cell(one)}</th>)}</tr></thead>
        <tbody>{token.rows.map((row, index) => <tr key={index}>{row.map((one, at) => <td key={at}>{cell(one)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}
