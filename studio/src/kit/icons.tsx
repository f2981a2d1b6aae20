import type { ReactNode } from "react";

const line = (...paths: string[]) => paths.map((d) => <path key={d} d={d} />);
const ICONS: Record<string, ReactNode> = {
  done: [<circle key="c" cx="12" cy="12" r="9" />, ...line("m8 12.2 2.8 2.8L16 9.5")],
  error: [<circle key="c" cx="12" cy="12" r="9" />, ...line("M12 7.5v5.5", "M12 16.3v.2")],
  waiting: [<circle key="c" cx="12" cy="12" r="9" />, ...line("M12 7v5l3 2")],
  running: line("M12 3a9 9 0 1 0 9 9"),
  pending: [<circle key="c" cx="12" cy="12" r="8.5" strokeDasharray="3 3.5" />],
  skipped: [<circle key="c" cx="12" cy="12" r="9" />, ...line("M8 12h8")],
  cancelled: [<circle key="c" cx="12" cy="12" r="9" />, ...line("m9 9 6 6", "m15 9-6 6")],
  runs: line("M4 6h10", "M4 12h16", "M4 18h7"),
  inbox: line("M3 13h5l1.5 3h5L16 13h5", "M5.5 5h13L21 13v6H3v-6z"),
  workflows: [<rect key="a" x="3" y="4" width="7" height="6" rx="1.5" />, <rect key="b" x="14" y="14" width="7" height="6" rx="1.5" />, ...line("M10 7h4a3.5 3.5 0 0 1 3.5 3.5V14")],
  start: line("M8 5.5v13l10-6.5z"),
  action: line("M13 3 5 13.5h6L10.5 21 19 10h-6z"),
  condition: line("M12 3.5 20.5 12 12 20.5 3.5 12z"),
  agent: [<rect key="r" x="4.5" y="8" width="15" height="11" rx="3" />, ...line("M12 4v4", "M9.5 13v1.2", "M14.5 13v1.2")],
  humanApproval: [<circle key="c" cx="10" cy="8" r="3.5" />, ...line("M3.5 20a6.5 6.5 0 0 1 11-4.7", "m15.5 18.5 2 2 3.5-4")],
  close: line("m6 6 12 12", "m18 6-12 12"),
  chevron: line("m9 6 6 6-6 6"),
  back: line("m14.5 6-6 6 6 6"),
  copy: [<rect key="r" x="9" y="9" width="11" height="11" rx="2" />, ...line("M5 15V6a2 2 0 0 1 2-2h8")],
  undo: line("M9 5 4 10l5 5", "M4 10h9a6 6 0 0 1 0 12h-2"),
  redo: line("m15 5 5 5-5 5", "M20 10h-9a6 6 0 0 0 0 12h2"),
  plus: line("M12 5v14", "M5 12h14"),
  minus: line("M5 12h14"),
  fit: line("M4 9V4h5", "M20 9V4h-5", "M4 15v5h5", "M20 15v5h-5"),
  link: line("M13 5h6v6", "M19 5l-9 9", "M17 14v4a1.5 1.5 0 0 1-1.5 1.5h-9A1.5 1.5 0 0 1 5 18V9a1.5 1.5 0 0 1 1.5-1.5H10"),
  pause: line("M9 6v12", "M15 6v12"),
  retry: line("M4 12a8 8 0 1 0 2.6-5.9", "M4 4.5V9h4.5"),
  user: [<circle key="c" cx="12" cy="8" r="3.7" />, ...line("M4.8 20a7.2 7.2 0 0 1 14.4 0")],
  clock: [<circle key="c" cx="12" cy="12" r="9" />, ...line("M12 7v5l3 2")],
  filter: line("M4 6h16", "M7 12h10", "M10 18h4"),
  signOut: line("M10 4H6a2 2 0 0 0-2 2v12a2 2 0 0 0 2 2h4", "m15 8 4 4-4 4", "M19 12H9"),
  theme: [<circle key="c" cx="12" cy="12" r="8.5" />, ...line("M12 3.5v17"), <path key="h" d="M12 3.5a8.5 8.5 0 0 1 0 17z" fill="currentColor" />],
  group: [<circle key="a" cx="9" cy="8.5" r="3.2" />, <circle key="b" cx="17" cy="9.5" r="2.4" />, ...line("M3 19a6 6 0 0 1 12 0", "M16 14.4a5 5 0 0 1 5 4.6")],
  key: [<circle key="c" cx="8" cy="15" r="4.2" />, ...line("m11 12 8.5-8.5", "m16 7 3 3")],
  hook: line("M7 4v9a5 5 0 0 0 10 0v-1", "m13.5 14.5 3.5-3.5 3.5 3.5"),
  policy: line("M12 3.5 19 6v5.5c0 4.3-2.9 7.6-7 9-4.1-1.4-7-4.7-7-9V6z", "m9 11.7 2.2 2.2L15.2 10"),
  usage: line("M4 20h16", "M7 20v-7", "M12 20V5", "M17 20v-10"),
  chat: line("M4 5h16v11H9l-5 4z"),
  skills: [<circle key="c" cx="12" cy="12" r="3" />, ...line("M12 3v4", "M12 17v4", "M3 12h4", "M17 12h4")],
  clip: line("m20 11-8.5 8.5a5 5 0 0 1-7-7L13 4a3.4 3.4 0 0 1 5 5l-8.4 8.4a1.7 1.7 0 0 1-2.5-2.4L15 7.2"),
  audit: line("M8 6h12", "M8 12h12", "M8 18h12", "M4 6h.1", "M4 12h.1", "M4 18h.1"),
  more: line("M5 12h.1", "M12 12h.1", "M19 12h.1"),
  note: line("M5 4h14v10l-5.5 6H5z", "M19 14h-5.5v6", "M8.5 9h7"),
  tool: line("M14.5 6.5a4 4 0 0 0 5 5L11 20l-4-4z", "M14.5 6.5 17 4"),
};

export function Icon({ name, spin = false }: { name: string; spin?: boolean }) {
  return (
    <svg className={`icon${spin ? " spin" : ""}`} viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="1.9"
      strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      {ICONS[name] ?? ICONS.pending}
    </svg>
  );
}
