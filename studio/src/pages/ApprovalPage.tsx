import { useState } from "react";
import { useChanges, useHost, useLoaded } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Empty, Failure, Loading } from "../kit/kit";
import { Approval, type Skin } from "./Approval";

/** Exactly one request, as a link in a message opens it. */
export default function ApprovalPage({ interruptId, skin }: { interruptId: string; skin: Skin }) {
  const { t } = useLanguage();
  const { api } = useHost();
  const [mine, setMine] = useState(false);
  const found = useLoaded(`interrupt:${interruptId}`, () => api.interrupt(interruptId));
  useChanges(["interrupt"], (changes) => {
    if (!mine && changes.some((change) => change.id === undefined || change.id === interruptId)) found.reload();
  });
  if (found.problem && found.value === undefined) return <Failure isPage problem={found.problem} onRetry={found.reload} />;
  if (found.value === undefined) return <Loading rows={7} />;
  if (found.value === null) return <Empty icon="inbox" title={t("approval.notFound")} />;
  return (
    <div className="page">
      <div className="scroll" tabIndex={0} style={{ display: "flex", flexDirection: "column" }}>
        <Approval key={interruptId} item={found.value} skin={skin} onDecided={(outcome) => (outcome.ok ? setMine(true) : found.reload())} />
      </div>
    </div>
  );
}
