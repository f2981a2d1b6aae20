import { useMemo } from "react";
import { Editing } from "../api/editing";
import { blank } from "../builder/document";
import { useHost } from "../elements/context";
import { ResourceList } from "./ResourceList";

/** The workflows that the caller may use or manage; each leads to its graph. */
export default function WorkflowsPage() {
  const { api, client } = useHost();
  const props = useMemo(() => ({
    load: (query: { q?: string; status?: string }, token: string | null) => api.workflowPage(query, token),
    create: (name: string) => new Editing(client).create(name, blank()),
  }), [api, client]);
  return <ResourceList kind="workflows" placeOf={(id) => ({ page: "workflow", id })} {...props} />;
}
