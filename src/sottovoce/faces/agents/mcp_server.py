"""The Model Context Protocol server of a data set: its tools are those of `AgentAccess`, its errors one line each."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel

from sottovoce.faces.agents.tools import INSTRUCTIONS, AgentAccess, NotApproved
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.shares import percent

_FREE = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_SPENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)


class _Approval(BaseModel):
    approve: bool


def _in_a_line(error: SottovoceError) -> ToolError:
    """Return what an agent is told: in one line, whatever a name of a column or a category in it holds."""
    return ToolError(" ".join(str(error).split()))


def agent_server(access: AgentAccess, version: str = "") -> MCPServer[Any]:
    """Return the server of a data set, to be run over standard input or HTTP."""
    server: MCPServer[Any] = MCPServer("sottovoce", instructions=INSTRUCTIONS, version=version)

    async def done(work: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
        try:
            return await anyio.to_thread.run_sync(partial(work, *given))
        except SottovoceError as error:
            raise _in_a_line(error) from None

    def asked_first(
        context: Context[Any], what: str, purpose: str, share: str | float
    ) -> _Approval | Elicit[_Approval]:
        """Return that nobody need be asked, or what the person behind the agent is asked before anything is charged."""
        try:
            spend = access.price(purpose, share)
            if access.approve_above is None or spend <= access.approve_above:
                return _Approval(approve=True)
            if context.client_capabilities is None or context.client_capabilities.elicitation is None:
                raise NotApproved(
                    f"{percent(spend)} needs the approval of a person, whom this client cannot ask; nothing was "
                    f"charged. Ask for {percent(access.approve_above)} or less"
                )
        except SottovoceError as error:
            raise _in_a_line(error) from None
        # Quoted, so that no text of the agent's passes for one of ours.
        said = f"Spend {percent(spend)} of the budget, which never comes back, on: {what!r}? Purpose: {purpose!r}"
        return Elicit(said, _Approval)

    def of_question(
        context: Context[Any], question: str, purpose: str, share: str | float = "2%"
    ) -> _Approval | Elicit[_Approval]:
        return asked_first(context, question, purpose, share)

    def of_table(
        context: Context[Any], question: str, purpose: str, share: str | float = "20%"
    ) -> _Approval | Elicit[_Approval]:
        return asked_first(context, question, purpose, share)

    def of_formula(
        context: Context[Any], formula: str, purpose: str, share: str | float = "20%"
    ) -> _Approval | Elicit[_Approval]:
        return asked_first(context, formula, purpose, share)

    def check_approved(reply: ElicitationResult[_Approval]) -> None:
        if not (isinstance(reply, AcceptedElicitation) and reply.data.approve):
            raise ToolError("a person was asked and did not approve; nothing was charged")

    @server.tool(annotations=_FREE)
    async def facts() -> dict[str, Any]:
        """What is public of the data set: columns, bounds, categories, how to ask, and what is left. Free."""
        return await done(access.facts)

    @server.tool(annotations=_FREE)
    async def plan(question: str, share: str | float = "2%") -> dict[str, Any]:
        """How wide the intervals of an answer would be for a share of the budget: a question or a formula. Free."""
        return await done(access.plan, question, share)

    @server.tool(annotations=_SPENDS)
    async def ask(
        question: str,
        purpose: str,
        approval: Annotated[ElicitationResult[_Approval], Resolve(of_question)],
        share: str | float = "2%",
        anew: bool = False,
    ) -> dict[str, Any]:
        """Answer a question such as "mean of age by ward where smoker": spends a share of the budget for good.

        What you asked before is told again, free; with anew you pay for another answer, with a larger share.
        """
        check_approved(approval)
        return await done(partial(access.ask, anew=anew), question, purpose, share)

    @server.tool(annotations=_SPENDS)
    async def describe(
        question: str,
        purpose: str,
        approval: Annotated[ElicitationResult[_Approval], Resolve(of_table)],
        share: str | float = "20%",
        anew: bool = False,
    ) -> dict[str, Any]:
        """Table 1, such as "describe age, smoker by ward": several questions for one share of the budget, for good.

        What you asked before is told again, free; with anew you pay for another answer, with a larger share.
        """
        check_approved(approval)
        return await done(partial(access.describe, anew=anew), question, purpose, share)

    @server.tool(annotations=_SPENDS)
    async def regress(
        formula: str,
        purpose: str,
        approval: Annotated[ElicitationResult[_Approval], Resolve(of_formula)],
        share: str | float = "20%",
        family: str | None = None,
        anew: bool = False,
    ) -> dict[str, Any]:
        """Fit a regression such as "died ~ age + C(ward)": spends a share of the budget for good.

        What you asked before is told again, free; with anew you pay for another answer, with a larger share.
        """
        check_approved(approval)
        return await done(partial(access.regress, anew=anew), formula, purpose, share, family)

    @server.tool(annotations=_FREE)
    async def again(entry: int) -> dict[str, Any]:
        """An answer that you paid for before, by the number of its entry. Free."""
        return await done(access.again, entry)

    @server.tool(annotations=_FREE)
    async def left() -> dict[str, Any]:
        """What is left of the budget, in words. Free."""
        return await done(access.left)

    @server.tool(annotations=_FREE)
    async def explain() -> dict[str, Any]:
        """What the budget promises to the people in the data, in plain words. Free."""
        return await done(access.explain)

    return server
