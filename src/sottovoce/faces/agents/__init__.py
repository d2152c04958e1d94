"""Agents: a data set as tools that a language model may use, by the Model Context Protocol."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.faces.agents.mcp_server import agent_server
    from sottovoce.faces.agents.tools import AgentAccess

__all__ = ["AgentAccess", "agent_server"]

__getattr__ = lazily(__name__)
