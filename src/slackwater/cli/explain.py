"""`slackwater explain`: asks a running agent why values are what they are."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from slackwater.cli.agent_client import AgentSource, ask_explanation
from slackwater.cli.agent_source import agent_options
from slackwater.cli.output import Output, output_options, print_data, wants_colour
from slackwater.cli.terminal import print_blocks
from slackwater.model.cgroup import Tier
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import list_numbers
from slackwater.record.explanation import (
    ContributionRow,
    Explanation,
    IdlePolicy,
    describe_contribution,
)
from slackwater.record.offers import OfferRow, describe_budget, describe_unreclaimable
from slackwater.record.rules import (
    CommandRow,
    RuleRow,
    describe_comparison,
    describe_counts,
)
from slackwater.record.targets import PODS
from slackwater.record.timestamps import describe_age, time_of_day

_TIERS = [tier.value for tier in Tier]
_INDENT = 2


@click.command()
@click.argument("target", default="", metavar="[POD|TIER|node]")
@click.option("--pods", is_flag=True, help="Of a tier: its pods and containers as well.")
@agent_options
@output_options
def explain(target: str, pods: bool, agent: AgentSource, output: Output, no_color: bool) -> None:
    """Why each value is what it is, or why nothing happened.

    POD is a name, namespace/name or a uid; TIER is besteffort, burstable or guaranteed. Without
    a target: everything that the agent changed, and why the rest is as it was.

    \b
    Examples:
      slackwater explain                     everything
      slackwater explain besteffort          one tier
      slackwater explain besteffort --pods   one tier, and all that is in it
      slackwater explain default/web         one pod, and what binds it from above
      slackwater explain default/web --node node-a   what another node's agent says
      slackwater explain -o json | jq '.[] | {target, knob, granted}'

    \b
    Exit codes: 0 explained, 1 no agent answers or there is no such target, 2 wrong usage.
    """
    if pods and target not in _TIERS:
        raise click.UsageError(f"--pods goes with a tier: {', '.join(_TIERS)}")
    rows = ask_explanation(agent, f"{target}{PODS}" if pods else target)
    if output in (Output.JSON, Output.YAML):
        print_data(rows, output)
        return
    blocks = explanation_blocks(rows, dt.datetime.now(dt.UTC), wide=output is Output.WIDE)
    print_blocks(blocks, wants_colour(no_color))


def explanation_blocks(
    rows: Sequence[Explanation], now: dt.datetime, wide: bool
) -> Iterator[RenderableType]:
    for number, row in enumerate(_limits_first(rows)):
        if number:
            yield Text("")
        yield from _knob_blocks(row, now, wide) if row.knob else _general_blocks(row, rows, now)


def _limits_first(rows: Sequence[Explanation]) -> Sequence[Explanation]:
    """What limits a pod from above comes before the row that says nothing was done to it."""
    if len(rows) > 1 and not rows[0].knob and all(row.knob for row in rows[1:]):
        return (*rows[1:], rows[0])
    return rows


def _knob_blocks(row: Explanation, now: dt.datetime, wide: bool) -> Iterator[RenderableType]:
    yield _knob_head(row, now)
    if row.path is not None:
        yield _indented(f"{row.file or row.knob} of {row.path}", "dim")
    told: set[str] = set()
    for number, part in enumerate(row.contributions, start=1):
        numbers = {} if part.policy in told else row.numbers.get(part.policy, {})
        told.add(part.policy)
        yield Padding(_contribution_table(number, part, numbers), (0, 0, 0, _INDENT))
    if row.clipped_by:
        yield _indented(f"clipped by {row.clipped_by}")
    if row.contest:
        yield _indented(f"contested: {row.contest}", "yellow")
    for hold in row.holds:
        yield _indented(_describe_idle_policy(hold, now), "yellow")
    if row.yielded_until:
        until = time_of_day(row.yielded_until)
        yield _indented(f"left to another writer until {until}", "yellow")
    for remark in row.remarks:
        yield _indented(remark, "yellow")
    if row.last_drift and (wide or not row.yielded_until):
        ago = describe_age(row.last_drift.at, now)
        yield _indented(f"{ago} ago: {row.last_drift.text}", "yellow")
    if wide:
        yield from _detail_lines(row, now)


def _knob_head(row: Explanation, now: dt.datetime) -> Text:
    """besteffort tier   quota 600m   (without us: unlimited)   set 12 s ago"""
    head = Text.assemble((row.target, "bold"), f" {row.level}", "   ")
    head.append(f"{row.knob} {row.now or 'unknown'}", "bold cyan")
    if row.granted is not None and row.granted != row.now:
        head.append(f", granted {row.granted}", "yellow")
    head.append(f"   (without us: {row.baseline or 'unknown'})", "dim")
    if row.since:
        age = describe_age(row.since, now)
        head.append(f"   adopted; ours for {age}" if row.adopted else f"   set {age} ago")
    return head


def _contribution_table(number: int, part: ContributionRow, numbers: Mapping[str, int]) -> Table:
    what = Text.assemble((part.policy, "bold"), f" {describe_contribution(part)}")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(str(number), what)
    if numbers:
        table.add_row("", Text(numbers_text(part.policy, numbers), "dim"))
    return table


def numbers_text(policy: str, numbers: Mapping[str, int]) -> str:
    """Every number that a policy looked at, in the policy's own words."""
    explain_numbers = next(
        (each.explain_numbers for each in POLICIES if each.name == policy), list_numbers
    )
    return explain_numbers(numbers)


def _detail_lines(row: Explanation, now: dt.datetime) -> Iterator[RenderableType]:
    """What -o wide adds."""
    if row.outcome:
        detail = f": {row.outcome.detail}" if row.outcome.detail else ""
        ago = describe_age(row.outcome.at, now)
        yield _indented(
            f"last attempt {ago} ago: {row.outcome.value} {row.outcome.result}{detail}", "dim"
        )
    if row.since:
        yield _indented(f"since {row.since}", "dim")


def _general_blocks(
    row: Explanation, rows: Sequence[Explanation], now: dt.datetime
) -> Iterator[RenderableType]:
    """Rules, offers and commands; then why nothing happened to a target, or, if something did,
    what else there is to say."""
    yield from rule_blocks(row.rules, now)
    yield from offer_blocks(row.offers)
    yield from (_indented(_describe_command(each)) for each in row.commands)
    reasons = [*row.remarks, *(_describe_idle_policy(hold, now) for hold in row.holds)]
    everything = row.level == "node"
    busy = any(each.knob and (everything or each.target == row.target) for each in rows)
    busy = busy or bool(row.offers) or any(each.state != "quiet" for each in row.rules)
    if (row.rules or row.offers) and not reasons:
        return
    itself = " itself" if any(each.knob for each in rows) else ""
    to = "" if everything else f" to {row.target}{itself}"
    head = "Besides" if busy else f"Nothing happened{to}"
    because = "" if busy else " because"
    if not reasons:
        yield Text(f"{head}: there is nothing to do")
    elif len(reasons) == 1:
        yield Text(f"{head}{because}: {reasons[0]}" if busy else f"{head}{because} {reasons[0]}")
    else:
        yield Text(f"{head}{because}:")
        yield from (_indented(reason) for reason in reasons)


def rule_blocks(rules: Sequence[RuleRow], now: dt.datetime) -> Iterator[RenderableType]:
    """Each rule: where it is, what it saw, what it did, what holds it back, until when."""
    for rule in rules:
        since = f" for {describe_age(rule.since, now)}" if rule.since else ""
        head = Text.assemble((rule.title(), "bold"), "   ")
        head.append(f"{rule.state}{since}", "" if rule.state == "quiet" else "bold yellow")
        yield head.append(f"   {describe_comparison(rule)}, {describe_counts(rule)}")
        done = rule.did or "nothing is done now"
        yield _indented(f"action {rule.action}: {done}", "" if rule.did else "dim")
        waits = f"until {time_of_day(rule.until)}" if rule.until else ""
        if rule.held or waits:
            yield _indented(": ".join(filter(None, (waits, rule.held))), "yellow")


def offer_blocks(offers: Sequence[OfferRow]) -> Iterator[RenderableType]:
    """Each extended resource: what is sold, how much could be, and what holds it back."""
    for offer in offers:
        shown = "" if offer.shown in (None, offer.offered) else f"   (the Node shows {offer.shown})"
        head = Text(offer.sold(), "bold")
        yield head.append(shown, "not bold yellow")
        yield _indented(describe_budget(offer))
        yield _indented(describe_unreclaimable(offer), "dim")
        if offer.exceeded:
            yield _indented(f"more was used than predicted in {offer.exceeded} ticks", "dim")
        if offer.missing:
            yield _indented(offer.missing, "yellow")


def _describe_command(command: CommandRow) -> str:
    """evict batch/job-1 is refused: a budget forbids it; tried again at 12:00:05"""
    detail = f": {command.detail}" if command.detail else ""
    again = f"; tried again at {time_of_day(command.retry_at)}" if command.retry_at else ""
    return f"{command.what} is {command.state}{detail}{again} ({command.because})"


def _describe_idle_policy(hold: IdlePolicy, now: dt.datetime) -> str:
    age = describe_age(hold.since, now) if hold.since else ""
    match hold.course:
        case "off":
            return f"{hold.policy} is off: {hold.reason}"
        case "released":
            return f"{hold.policy} let go: {hold.reason}"
        case "acted":
            return f"{hold.policy}: {hold.reason}"
        case _:
            return f"{hold.policy} holds{f', for {age} now' if age else ''}: {hold.reason}"


def _indented(text: str, style: str = "") -> Padding:
    return Padding(Text(text, style), (0, 0, 0, _INDENT))
