"""Agents: a data set as tools that a language model may use, by the Model Context Protocol."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.faces.agents.mcp_server import agent_server as agent_server
    from sottovoce.faces.agents.tools import AgentAccess as AgentAccess

__getattr__ = lazily(__name__)
