"""The one error of this package."""


class RemoteAgentError(Exception):
    """Why a node's agent cannot be asked, and what to do next, in one sentence."""
