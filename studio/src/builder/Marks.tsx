import type { Node, NodeProps } from "@xyflow/react";
import { memo, useId, useState } from "react";
import type { GraphNode, Structure } from "../api/types";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { brief, visible } from "../kit/safe";
import { groupsOf, LONGEST_NOTE, type Note } from "./annotations";
import { titleOf } from "./document";

export type ShownNote = Node<{ text: string }, "note">;
export type ShownGroup = Node<{ name: string }, "group">;

export const NoteNode = memo(function NoteNode({ data }: NodeProps<ShownNote>) {
  return <div className="gnote text">{visible(data.text.slice(0, 600))}</div>;
});

export const GroupNode = memo(function GroupNode({ data }: NodeProps<ShownGroup>) {
  return <div className="gframe"><span className="gframename clip">{brief(data.name, 80)}</span></div>;
});

function Head({ icon, title, onClose }: { icon: string; title: string; onClose: () => void }) {
  const { t } = useLanguage();
  return (
    <div className="row between">
      <h2 className="clip"><Icon name={icon} /> {brief(title, 80)}</h2>
      <button type="button" className="button plain square" aria-label={t("common.close")} onClick={onClose}><Icon name="close" /></button>
    </div>
  );
}

/** The text of a note. */
export function NoteEditor({ note, canEdit, onText, onDelete, onClose }: {
  note: Note; canEdit: boolean; onText: (text: string) => void; onDelete: () => void; onClose: () => void;
}) {
  const { t } = useLanguage();
  const id = useId();
  return (
    <div className="nodeeditor">
      <div className="section">
        <Head icon="note" title={t("builder.note")} onClose={onClose} />
        <div className="field">
          <label htmlFor={id}>{t("builder.noteText")}</label>
          <textarea id={id} className="input" rows={6} disabled={!canEdit} maxLength={LONGEST_NOTE} value={note.text} onChange={(event) => onText(event.target.value)} />
        </div>
      </div>
      {canEdit && <div className="section"><div><button type="button" className="button danger" onClick={onDelete}>{t("builder.deleteNote")}</button></div></div>}
    </div>
  );
}

/** The group of one or more nodes, as an input with the names of the others. An empty name takes them out of it. */
export function GroupInput({ structure, value, disabled, onGroup }: { structure: Structure; value: string; disabled: boolean; onGroup: (name: string) => void }) {
  const { t } = useLanguage();
  const id = useId();
  const [text, setText] = useState(value);
  const commit = () => text.trim() !== value && onGroup(text.trim());
  return (
    <div className="field">
      <label htmlFor={id}>{t("builder.group")}<span className="hint"> · {t("form.optional")}</span></label>
      <input id={id} className="input" list={`${id}-names`} maxLength={80} disabled={disabled} value={text} onChange={(event) => setText(event.target.value)}
        onBlur={commit} onKeyDown={(event) => event.key === "Enter" && commit()} />
      <datalist id={`${id}-names`}>{[...groupsOf(structure).keys()].slice(0, 100).map((name) => <option key={name} value={name} />)}</datalist>
    </div>
  );
}

/** Several nodes that are selected, or the nodes of a group. */
export function SeveralEditor({ structure, nodes, group, canEdit, onGroup, onSelect, onDelete, onClose }: {
  structure: Structure; nodes: GraphNode[]; group: string | null; canEdit: boolean; onGroup: (name: string) => void; onSelect: (id: string) => void;
  onDelete: () => void; onClose: () => void;
}) {
  const { t } = useLanguage();
  return (
    <div className="nodeeditor">
      <div className="section">
        <Head icon="workflows" title={group ?? t("builder.selected", { count: nodes.length })} onClose={onClose} />
        <GroupInput key={group ?? ""} structure={structure} value={group ?? ""} disabled={!canEdit} onGroup={onGroup} />
        <ul>
          {nodes.slice(0, 100).map((node) => (
            <li key={node.id}><button type="button" className="child" onClick={() => onSelect(node.id)}><Icon name={node.type} /><span className="clip">{brief(titleOf(node), 60)}</span></button></li>
          ))}
        </ul>
      </div>
      {canEdit && (
        <div className="section">
          <div className="row wrap">
            {group !== null && <button type="button" className="button" onClick={() => onGroup("")}>{t("builder.ungroup")}</button>}
            <button type="button" className="button danger" onClick={onDelete}>{t("builder.deleteNodes", { count: nodes.length })}</button>
          </div>
        </div>
      )}
    </div>
  );
}
