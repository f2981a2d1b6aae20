"""Workflow graphs in Python, and pictures of them.

    flow = Flow("Refunds", input=RefundRequest)
    ask = flow.approval(message=f"Refund order {flow.input.order}?")
    pay = flow.action(send_refund, order=flow.input.order)
    await core.workflows.create(me, name=flow.name, structure=flow.structure())

A node follows the one before it, unless `after` says otherwise: `after=ask.denied`.
"""

from wfcore.flows.builder import Flow
from wfcore.flows.expressions import Expr, expr
from wfcore.flows.nodes import ActionNode, AgentNode, ApprovalNode, ConditionNode, Exit, FlowNode, StartNode
from wfcore.flows.origins import FlowError

__all__ = [
    "ActionNode",
    "AgentNode",
    "ApprovalNode",
    "ConditionNode",
    "Exit",
    "Expr",
    "Flow",
    "FlowError",
    "FlowNode",
    "StartNode",
    "expr",
]
