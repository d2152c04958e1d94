"""``sottovoce profile-graph``: plan and make releases under profile-based local privacy."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.faces.cli.console import AsJson, emit, fail
from sottovoce.privacy.errors import InvalidData, InvalidValue, SottovoceError
from sottovoce.theory.local import (
    OneBitCluster,
    ProfileGraph,
    ProfileMechanism,
    RandomizedResponse,
    SmoothCategorical,
    SmoothOneBit,
    TwoProfileOneBit,
)
from sottovoce.theory.local.files import read_column, read_graph, write_column

__all__ = ["app"]

app = typer.Typer(
    help="Hide which distribution a record came from: plan a mechanism, or release a column.",
    no_args_is_help=True,
)


class Kind(enum.StrEnum):
    """The mechanisms by name."""

    SMOOTH_CATEGORICAL = SmoothCategorical.word
    SMOOTH_ONE_BIT = SmoothOneBit.word
    ONE_BIT_CLUSTER = OneBitCluster.word
    TWO_PROFILE_ONE_BIT = TwoProfileOneBit.word
    RANDOMIZED_RESPONSE = RandomizedResponse.word


CALIBRATE: dict[Kind, Callable[[ProfileGraph, float], ProfileMechanism]] = {
    Kind.SMOOTH_CATEGORICAL: SmoothCategorical.calibrate,
    Kind.SMOOTH_ONE_BIT: SmoothOneBit.calibrate,
    Kind.ONE_BIT_CLUSTER: OneBitCluster.calibrate,
    Kind.TWO_PROFILE_ONE_BIT: TwoProfileOneBit.calibrate,
    Kind.RANDOMIZED_RESPONSE: RandomizedResponse.calibrate,
}

Profiles = Annotated[
    Path, typer.Argument(help="Profiles: JSON with profiles and edges, or CSV with a column for each category.")
]
Edges = Annotated[
    str | None, typer.Option("--edges", help="complete, chain, or a CSV file of pairs; a JSON file may hold its own.")
]
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="The bound across an edge, for each record.")]
Mechanism = Annotated[Kind, typer.Option("--mechanism", "-m", help="How records are altered.")]


@contextmanager
def _errors(as_json: bool) -> Iterator[None]:
    """Turn what a user can mend into one line on standard error and its exit code."""
    try:
        yield
    except SottovoceError as error:
        raise typer.Exit(fail(error, as_json=as_json)) from None
    except OSError as error:
        raise typer.Exit(fail(InvalidData(str(error)), as_json=as_json)) from None


def _summary(mechanism: ProfileMechanism) -> dict[str, Any]:
    local = RandomizedResponse.calibrate(mechanism.graph, mechanism.epsilon)
    return {
        "mechanism": mechanism.word,
        "guarantee": mechanism.guarantee.to_dict(),
        "categories": list(mechanism.graph.categories),
        "components": [[mechanism.graph.names[i] for i in part] for part in mechanism.graph.components],
        "largest_loss": float(mechanism.edge_losses().max(initial=0.0)),
        "max_error": mechanism.max_error(),
        "mean_error": mechanism.mean_error(),
        "randomized_response": {"max_error": local.max_error(), "mean_error": local.mean_error()},
    }


def _say(summary: dict[str, Any]) -> None:
    promise, local = summary["guarantee"], summary["randomized_response"]
    typer.echo(f"mechanism      {summary['mechanism']}")
    typer.echo(
        f"promise        ε = {promise['epsilon']:g} for each record, across {promise['edges']} edges "
        f"of {promise['profiles']} profiles in {len(summary['components'])} components"
    )
    typer.echo(f"loss reached   {summary['largest_loss']:.6g}")
    typer.echo(f"mean error     {summary['mean_error']:.4f}   (randomized response {local['mean_error']:.4f})")
    typer.echo(f"largest error  {summary['max_error']:.4f}   (randomized response {local['max_error']:.4f})")


@app.command()
def plan(
    profiles: Profiles,
    *,
    epsilon: Epsilon,
    edges: Edges = None,
    mechanism: Mechanism = Kind.SMOOTH_CATEGORICAL,
    matrices: Annotated[
        Path | None, typer.Option("--matrices", help="Write the transition matrices here, as .json or .csv.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a mechanism would do to records, before any record is read."""
    with _errors(as_json):
        built = CALIBRATE[mechanism](read_graph(profiles, edges), epsilon)
        if matrices is not None:
            text = built.to_csv() if matrices.suffix.lower() == ".csv" else built.to_json(indent=1)
            matrices.write_text(text, encoding="utf-8")
        if as_json:
            emit(_summary(built))
        else:
            _say(_summary(built))


@app.command()
def release(
    profiles: Profiles,
    records: Annotated[Path, typer.Argument(help="CSV file of records.")],
    *,
    epsilon: Epsilon,
    column: Annotated[str, typer.Option("--column", "-c", help="The column of records to release.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV file to write: the released column alone.")],
    profile_column: Annotated[
        str | None, typer.Option("--profile-column", help="The column that names each record's profile.")
    ] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="The one profile of every record.")] = None,
    edges: Edges = None,
    mechanism: Mechanism = Kind.SMOOTH_CATEGORICAL,
    as_json: AsJson = False,
) -> None:
    """Release a column of records, with secure randomness; nothing but that column is written."""
    with _errors(as_json):
        if (profile is None) == (profile_column is None):
            raise InvalidValue("give either --profile or --profile-column")
        built = CALIBRATE[mechanism](read_graph(profiles, edges), epsilon)
        if profile_column is None:
            (values,) = read_column(records, column)
            released = built.release(values, profile)
        else:
            values, sources = read_column(records, column, profile_column)
            released = built.release(values, sources)
        write_column(output, column, released.value.tolist())
        if as_json:
            emit(_summary(built) | {"records": len(values), "output": str(output)})
        else:
            _say(_summary(built))
            typer.echo(f"released       {len(values)} records to {output}")
