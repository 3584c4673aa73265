"""Functions of datasets one behind the other, made one function."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from tf_booster.passes.dataset_functions import DatasetFunction, prune, set_messages


def composed(definitions: Sequence[Any], elements: Sequence[int]) -> Any:
    """A FunctionDef that gives what the last of `definitions` gives for what the one before it gave, and so on.

    Its arguments are those of the first, and behind them what the others take from outside. A node `n` of definition i is called
    `f{i}/n`.

    Args:
      elements: how many arguments of each are an element; those behind are from outside.
    """
    made = type(definitions[0])()
    made.signature.name = "_then_".join(definition.signature.name for definition in definitions)
    for key, value in definitions[-1].attr.items():
        if key != "_input_shapes":
            made.attr[key].CopyFrom(value)
    given: List[str] = []
    for i, (definition, num_given) in enumerate(zip(definitions, elements)):
        arguments = list(definition.signature.input_arg)
        sources: Dict[str, str] = {}
        for number, argument in enumerate(arguments):
            if i > 0 and number < num_given:
                sources[argument.name] = given[number]
            else:
                new = made.signature.input_arg.add()
                new.CopyFrom(argument)
                new.name = sources[argument.name] = f"f{i}_{argument.name}"
        for node in definition.node_def:
            new = made.node_def.add()
            new.CopyFrom(node)
            new.name = f"f{i}/{node.name}"
            new.input[:] = [_inside(name, i, sources) for name in node.input]
        for output, name in definition.control_ret.items():
            made.control_ret[f"f{i}_{output}"] = f"f{i}/{name}"
        given = [_inside(definition.ret[output.name], i, sources) for output in definition.signature.output_arg]
    made.signature.output_arg.extend(definitions[-1].signature.output_arg)
    for output, tensor in zip(made.signature.output_arg, given):
        made.ret[output.name] = tensor
    made.signature.control_output[:] = sorted(made.control_ret)
    made.signature.is_stateful = any(definition.signature.is_stateful for definition in definitions)
    prune(made)
    return made


def _inside(name: str, number: int, sources: Dict[str, str]) -> str:
    if name.startswith("^"):
        return f"^f{number}/{name[1:]}"
    return sources.get(name) or f"f{number}/{name}"


def drop_unused_arguments(definition: Any) -> List[int]:
    """Takes away the arguments that nothing reads. Returns the numbers of those that stay."""
    function = DatasetFunction(definition)
    returned = {function.behind_identities(tensor) for tensor in definition.ret.values()}
    kept = [i for i, name in enumerate(function.arguments) if name in returned or function.readers(name)]
    set_messages(definition.signature.input_arg, [definition.signature.input_arg[i] for i in kept])
    definition.arg_attr.clear()
    return kept
