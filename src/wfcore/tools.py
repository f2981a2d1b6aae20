"""Tools from more than one function: the methods of a class, the operations of an OpenAPI document.

crm = wfcore.tools.from_openapi("crm.yaml", only=["listOrders", "refundOrder"], provider="crm")
async with wfcore.open(database, tools=[send_refund, *wfcore.tools.from_class(Desk()), *crm]) as core:
"""

from wfcore.adapters.outbound.openapi_tools import from_openapi
from wfcore.adapters.tools.functions import tool
from wfcore.adapters.tools.functions import tools_of as from_class
from wfcore.adapters.tools.injection import Provide, RunContext

__all__ = ["Provide", "RunContext", "from_class", "from_openapi", "tool"]
