"""``initscope plan``: every planner of `initscope.plan` as a command, made from its signature and docstring.

Options, their types, defaults and help come from the planner's signature; ``plan check NAME`` simulates the answer.
"""

from __future__ import annotations

import inspect
import operator
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from cyclopts import App, Parameter

from initscope import plan
from initscope.cli._help import OUTPUT, WORK, examples
from initscope.cli._options import Seed, Whole
from initscope.cli._output import Format, ask_of, emit, print_sentence, say
from initscope.cli._sources import DataSource, ModelSource, load_pairs, load_sources
from initscope.cli.predict_measure import InitializerName, Model
from initscope.initializers import named
from initscope.results import Result

__all__ = ["app"]

app = App(
    name="plan",
    help="Plan widths, depths, numbers of filters, dimensions and bits, by bounds and exact answers.",
    help_epilogue=examples("plan"),
    group_parameters=WORK,
)
checks = App(
    name="check",
    help="Simulate the answer of a planner many times and compare the failure rate with the promised one.",
    help_epilogue=examples("plan check"),
    group_parameters=WORK,
)
app.command(checks)

_DEFAULTS = {"eps": 0.1, "delta": 0.05}
"""Of what the functions ask for and the command line does not."""
_CHECKED = {
    "rate": "failures of all trials",
    "low": "its 95 % interval, to high",
    "promise": "delta, the most that the plan allows",
    "predicted": "the rate by theory",
}
_OUTPUTS = {
    "necessary": "fewer are never injective",
    "conjectured": "enough for wide layers, not proven",
    "guaranteed": "proven; the inputs of the next layer",
    "bound": "which of two bounds proves it",
}
"""What stands in the columns."""
_NAMES = {"n": ["--inputs", "-n", "--n"]}
"""Names of options that differ from the argument's."""
_IMAGES, _FROM_DATA = ("x", "y"), ("model", "x", "y", "initializer", "seed", "pilot")


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class Trials:
    """Options of plan check."""

    answer: str | None = None
    """Answer to simulate, such as paper; default: the best one."""
    trials: Whole = 2000
    """Number of networks, layers or codes to simulate."""
    check_seed: Seed = 0
    """Seed of the simulation."""


def _command(planner: Callable[..., Any], *, checked: bool) -> Callable[..., None]:
    """Return the command that runs ``planner``, or simulates its answer."""
    asks = inspect.signature(planner).parameters
    takes_images, takes_model = set(_IMAGES) <= set(asks), "model" in asks

    def run(*models: str, source: Any = None, trials: Trials | None = None, **options: Any) -> None:
        options = defaults | options
        format = options.pop("format")
        images: tuple[Any, ...] = ()
        built: tuple[Any, ...] = ()
        if takes_model:
            loaded = load_sources(models[0], source := source or ModelSource())
            built, images = loaded[:1], loaded[1:]
            options["initializer"] = named(options["initializer"])
        elif takes_images:
            images = load_pairs(source := source or DataSource())
        if takes_images:
            options["seed"] = source.seed
        result = planner(*built, *images, **options)
        if not checked:
            _show(result, format)
            return
        trials = trials or Trials()
        checked_plan = plan.check(
            result, answer=trials.answer, trials=trials.trials, seed=trials.check_seed, images=images or None
        )
        if not takes_images:
            ask_of(seed=trials.check_seed)
        emit(
            checked_plan,
            format,
            title=f"plan check {checked_plan.planner}: the answer {checked_plan.answer!r}",
            words=_CHECKED,
        )

    options = _options(planner, leave=_FROM_DATA if takes_images else ())
    keyword = inspect.Parameter.KEYWORD_ONLY
    groups: dict[str, Any] = {"source": ModelSource if takes_model else DataSource} if takes_images else {}
    groups |= {"trials": Trials} if checked else {}
    options += [inspect.Parameter(name, keyword, default=None, annotation=kind | None) for name, kind in groups.items()]
    options.append(inspect.Parameter("format", keyword, default="table", annotation=Format))
    if takes_model:
        options.append(inspect.Parameter("initializer", keyword, default="present", annotation=InitializerName))
        options.insert(0, inspect.Parameter("model", inspect.Parameter.POSITIONAL_ONLY, annotation=Model))
    defaults = {option.name: option.default for option in options if option.name not in (*groups, "model")}
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    run.__name__, run.__doc__ = planner.__name__, None
    return run


def _show(result: Result, format: Format) -> None:
    if not isinstance(result, plan.Plan):
        emit(result, format, title="plan expansivity: outputs with which ReLU layers are injective", words=_OUTPUTS)
        return
    answer = {"answer": result.best, "value": result.answers[result.best], "unit": result.unit}
    if format == "table":
        print_sentence(result.conclusion)
    emit(result, format, title=result.title, best=answer)
    if format == "table":
        for assumption in result.assumptions:
            say(f"assumes: {assumption}")
        print_sentence(f"Next: initscope plan check {result.planner}, with the same options, simulates this answer.")


def _options(planner: Callable[..., Any], leave: tuple[str, ...]) -> list[inspect.Parameter]:
    """Return the arguments of ``planner`` as named options, with help texts from its docstring."""
    kinds, texts = get_type_hints(planner), _parameter_texts(planner)
    options = []
    for name, argument in inspect.signature(planner).parameters.items():
        if name in leave:
            continue
        default = _DEFAULTS.get(name, argument.default) if argument.default is argument.empty else argument.default
        described = Parameter(name=_NAMES.get(name), group=WORK, help=texts[name])
        kind = operator.getitem(Annotated, (_option_kind(kinds[name]), described))
        options.append(inspect.Parameter(name, argument.KEYWORD_ONLY, default=default, annotation=kind))
    return options


def _option_kind(kind: Any) -> Any:
    """Whole numbers are read as they are written."""
    if kind is int:
        return Whole
    if str in get_args(kind):
        return str
    if get_origin(kind) in (Union, types.UnionType) and int in get_args(kind):
        return Whole | None
    return kind


def _parameter_texts(function: Callable[..., Any]) -> dict[str, str]:
    """Parameter → text, from the section Parameters of a NumPy docstring, without its markup."""
    section = inspect.getdoc(function).split("Parameters\n----------\n")[1].split("\n\n")[0]  # type: ignore[union-attr]
    checked_plan: dict[str, str] = {}
    for names, text in re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?)+)", section, flags=re.MULTILINE):
        checked_plan |= dict.fromkeys(names.split(", "), _without_markup(" ".join(text.split())))
    return checked_plan


def _without_markup(text: str) -> str:
    """Return names and formulas as a terminal shows them."""
    return re.sub(r":math:|[`*]", "", text)


def _summary(planner: Callable[..., Any]) -> str:
    """The first sentence of a docstring."""
    return _without_markup(" ".join(inspect.getdoc(planner).split("\n\n")[0].split()))  # type: ignore[union-attr]


def _is_planner(value: Any) -> bool:
    """Whether it is a function that answers with a `Plan`, which `check` can draw."""
    kind = get_type_hints(value).get("return") if inspect.isfunction(value) else None
    return inspect.isclass(kind) and issubclass(kind, plan.Plan)


_PLANNERS = [name for name in dir(plan) if _is_planner(getattr(plan, name))]

for _name in (*_PLANNERS, "expansivity"):
    _planner = getattr(plan, _name)
    _shown = {"help_epilogue": examples(f"plan {_name}")}
    app.command(_command(_planner, checked=False), name=_name, help=_summary(_planner), **_shown)
    if _name in _PLANNERS:
        _text = f"Check the answer of plan {_name}: {_summary(_planner)}"
        checks.command(_command(_planner, checked=True), name=_name, help=_text, help_epilogue=examples("plan check"))
