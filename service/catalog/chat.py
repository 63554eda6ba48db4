"""The chat template that is pinned to an artifact: a file of its own, or a field of its config."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from service.core.chat import ChatTemplate
from service.core.tokenizer import ROLES
from service.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.catalog.lock import LockedArtifact
    from service.core.tokenizer import Tokenizer

_DEFAULT, _WITH_TOOLS = "default", "tool_use"
"""Names of templates in a config that has several (transformers, get_chat_template)."""


@dataclasses.dataclass(frozen=True, slots=True)
class ChatTemplates:
    """The templates of one artifact, compiled."""

    by_name: Mapping[str, ChatTemplate]
    sha256: str
    """Of the template's bytes; of several, of their sources in the order of their names."""

    def choose(self, *, tools: bool) -> ChatTemplate | None:
        """The template for a chat with or without tools, as transformers chooses it."""
        if tools and _WITH_TOOLS in self.by_name:
            return self.by_name[_WITH_TOOLS]
        return self.by_name.get(_DEFAULT)


def load_chat(
    artifact: LockedArtifact, tokenizer: Tokenizer, files: Mapping[str, bytes]
) -> ChatTemplates | None:
    """Compile the artifact's templates. Raises ArtifactError for one that does not compile."""
    config = _config(artifact, files)
    try:
        sources = _sources(files, config)
        names = _token_names(tokenizer, config)
        compiled = {name: ChatTemplate(source, names) for name, source in sources.items()}
    except Exception as error:  # noqa: BLE001 - Jinja and Python refuse sources in many ways
        role = "chat_template" if "chat_template" in files else "config"
        (path,) = (file.path for file in artifact.file if file.role == role)
        reason = f"the chat template can't be used: {type(error).__name__}: {error}"
        raise ArtifactError(artifact.name, reason, file=path) from None
    if not compiled:
        return None
    joined = "".join(source for _, source in sorted(sources.items()))
    return ChatTemplates(compiled, hashlib.sha256(joined.encode()).hexdigest())


def _config(artifact: LockedArtifact, files: Mapping[str, bytes]) -> dict[str, Any] | None:
    if "config" not in files:
        return None
    try:
        return msgspec.json.decode(files["config"], type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ArtifactError(artifact.name, f"the config is no JSON object: {error}") from None


def _sources(files: Mapping[str, bytes], config: Mapping[str, Any] | None) -> dict[str, str]:
    """Template sources by name. A file of its own goes before the config's field."""
    if "chat_template" in files:
        return {_DEFAULT: files["chat_template"].decode()}
    field = (config or {}).get("chat_template")
    if field is None:
        return {}
    if isinstance(field, str):
        return {_DEFAULT: field}
    return {named["name"]: named["template"] for named in field}


def _token_names(tokenizer: Tokenizer, config: Mapping[str, Any] | None) -> dict[str, str]:
    """What a template sees as `bos_token` and so on: the config's, or those of the roles."""
    if config is None:
        roles = tokenizer.facts.roles
        return {f"{role}_token": tokenizer.token_bytes(roles[role]).decode() for role in roles}
    names: dict[str, str] = {}
    for role in ROLES:
        token = config.get(f"{role}_token")
        spelling = token.get("content") if isinstance(token, dict) else token
        if isinstance(spelling, str):
            names[f"{role}_token"] = spelling
    return names
