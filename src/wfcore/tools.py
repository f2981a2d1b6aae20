"""Tools from more than one function: the methods of a class.

async with wfcore.open(database, tools=[send_refund, *wfcore.tools.from_class(Desk())]) as core:
"""

from wfcore.adapters.tools.functions import tool
from wfcore.adapters.tools.functions import tools_of as from_class
from wfcore.adapters.tools.injection import Provide, RunContext

__all__ = ["Provide", "RunContext", "from_class", "tool"]
