"""Templates of the Helm chart, made from the objects themselves: nobody writes one by hand.

What values choose among few possibilities (`Choice`) is rendered in every combination.  An object that is the same in
all of them stands there once; one that differs stands there once per difference, under a condition on those choices
that it depends on.  What values choose freely is marked in the objects, and the marks become expressions.  So objects
that are added to an installation are in the chart without further ado.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import yaml

from ..api.objects import meta
from ..api.scheme import DEPLOYMENTS, Object
from .admission.kinds import MUTATING_POLICIES
from .cluster_facts import OLDEST_WITH_POLICIES
from .objects.labelled import POLICIES
from .options import PARTS, InstallOptions

#: Where a server takes policies, whatever the values say.
TAKES_VALIDATING = f'semverCompare ">={".".join(map(str, OLDEST_WITH_POLICIES))}.0-0" .Capabilities.KubeVersion.Version'
TAKES_MUTATING = f'.Capabilities.APIVersions.Has "{MUTATING_POLICIES.api_version}/{MUTATING_POLICIES.kind}"'
_POLICIES = (
    f'list (ternary "validating" "" (and .Values.validatingPolicies ({TAKES_VALIDATING})))'
    f' (ternary "mutating" "" (and .Values.mutatingPolicies ({TAKES_MUTATING})))'
    ' | compact | join "," | default "none"'
)
#: Marks of values that are text or numbers, and the expressions in their place.
_MARKS = {
    "namespace-of-the-release": ".Release.Namespace",
    "image-of-the-values": ".Values.image",
    "9876543": ".Values.replicas",
    **{f"{part}-config-of-the-values": f".Values.{part}Config" for part in PARTS},
}
_NAME = "name-of-the-values"
MARKED = InstallOptions(
    namespace="namespace-of-the-release",
    image="image-of-the-values",
    replicas=9876543,
    scheduler_names=(_NAME,),
    configurations={part: f"{part}-config-of-the-values" for part in PARTS},
)
#: Fields of a pod that values give as they are, and leave out when empty.
_POD_FIELDS = ("imagePullSecrets", "priorityClassName", "nodeSelector", "tolerations")
_FIELD = "field-of-the-values--"

Key = tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """One among few possibilities."""

    #: What a template writes to name the one that is chosen.
    expression: str
    #: The options of each, by that name.
    states: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class _Piece:
    """The text of an object, and when it stands there: for which names of which choices."""

    text: str
    depends_on: tuple[int, ...]
    when: tuple[Key, ...]


def template(choices: Sequence[Choice], render: Callable[[InstallOptions], list[Object]]) -> str:
    """The template of all that `render` makes of any combination of choices."""
    rendered: dict[Key, dict[Key, str]] = {}
    texts: dict[bytes, str] = {}

    def text(obj: Object) -> str:
        """Most objects are the same in most combinations."""
        encoded = msgspec.json.encode(obj)
        return texts.get(encoded) or texts.setdefault(encoded, _text(obj))

    for names in itertools.product(*(choice.states for choice in choices)):
        options = MARKED
        for choice, name in zip(choices, names, strict=True):
            options = replace(options, **choice.states[name])
        rendered[names] = {_identity(obj): text(obj) for obj in render(options)}
    longest = max(rendered.values(), key=len)
    identities = list(dict.fromkeys(itertools.chain(longest, *rendered.values())))
    pieces = [piece for one in identities for piece in _pieces({names: of.get(one) for names, of in rendered.items()})]
    return "".join(_blocks(choices, pieces))


def _identity(obj: Object) -> Key:
    return obj["apiVersion"], obj["kind"], meta.namespace(obj), meta.name(obj)


def _pieces(texts: Mapping[Key, str | None]) -> Iterator[_Piece]:
    """One per text that an object can have."""
    count = len(next(iter(texts)))
    depends_on = tuple(number for number in range(count) if _matters(number, texts))
    found: dict[str, dict[Key, None]] = {}
    for names, text in texts.items():
        if text is not None:
            found.setdefault(text, {})[tuple(names[number] for number in depends_on)] = None
    for text, when in found.items():
        yield _Piece(text, depends_on, tuple(when))


def _matters(number: int, texts: Mapping[Key, str | None]) -> bool:
    """Whether a text changes with this choice alone."""
    seen: dict[Key, str | None] = {}
    return any(seen.setdefault(names[:number] + names[number + 1 :], text) != text for names, text in texts.items())


def _blocks(choices: Sequence[Choice], pieces: Sequence[_Piece]) -> Iterator[str]:
    """Pieces under their conditions; neighbours under the same one share it."""
    for (depends_on, when), group in itertools.groupby(pieces, key=lambda piece: (piece.depends_on, piece.when)):
        text = "".join(f"---\n{piece.text}" for piece in group)
        if not depends_on:
            yield text
            continue
        names = " ".join(f'"{"/".join(names)}"' for names in when)
        chosen = " ".join(f"({choices[number].expression})" for number in depends_on)
        asked = chosen if len(depends_on) == 1 else f'(list {chosen} | join "/")'
        yield f"{{{{- if has {asked} (list {names}) }}}}\n{text}{{{{- end }}}}\n"


def _text(obj: Object) -> str:
    """With expressions in place of marks; what looks like an expression by itself is written as text."""
    text = yaml.dump(_marked(obj), Dumper=yaml.CSafeDumper, sort_keys=False, width=1000)
    text = text.replace("{{", '{{ "{{" }}')
    # A list of names: every name with its option.
    text = re.sub(
        rf"^( *- )(--[\w-]+)\n *- {_NAME}\n",
        r"{{- range .Values.schedulerNames }}\n\1\2\n\1{{ . | quote }}\n{{- end }}\n",
        text, flags=re.MULTILINE,
    )  # fmt: skip
    text = re.sub(
        rf"^( *)(\w+): {_FIELD}([\w.]+)\n",
        r"{{- with .Values.\3 }}\n\1\2: {{ toJson . }}\n{{- end }}\n",
        text, flags=re.MULTILINE,
    )  # fmt: skip
    text = re.sub(r"^( *- --only\n *- ).*$", r'\1{{ join "," .Values.controllers }}', text, flags=re.MULTILINE)
    text = re.sub(rf"^( *{POLICIES}: ).*$", rf"\1{{{{ {_POLICIES} }}}}", text, flags=re.MULTILINE)
    for mark, expression in _MARKS.items():
        plain = expression if mark.isdigit() else f"{expression} | quote"
        text = re.sub(rf"(?<=: |- ){mark}$", f"{{{{ {plain} }}}}", text, flags=re.MULTILINE)
        text = text.replace(mark, f"{{{{ {expression} }}}}")
    assert "of-the-values" not in text, f"a mark stands where no expression is known for it:\n{text}"
    return text


def _marked(obj: Object) -> Object:
    """A Deployment with marks in place of what values give as it is."""
    if obj["kind"] != DEPLOYMENTS.kind:
        return obj
    spec = obj["spec"]
    pod = spec["template"]["spec"]
    [part] = [part for part in PARTS if pod["containers"][0]["name"] == part]
    container = {**pod["containers"][0], "resources": f"{_FIELD}resources.{part}"}
    marked = {**pod, **{name: f"{_FIELD}{name}" for name in _POD_FIELDS}, "containers": [container]}
    return {**obj, "spec": {**spec, "template": {**spec["template"], "spec": marked}}}
