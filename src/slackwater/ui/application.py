"""The page's addresses, and what each answers. Everything is read; nothing is written anywhere."""

import logging
import time
import traceback
from collections.abc import Callable, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from slackwater.model.gap import Gap
from slackwater.record.recording import Recording
from slackwater.ui import agent_views, cluster_views
from slackwater.ui.agent_watch import AgentWatch
from slackwater.ui.page import FOLDER, NavigationItem, Pages, View
from slackwater.ui.sources import (
    ClusterSource,
    NotAvailableError,
    PageSources,
    RotationPlans,
    WorkloadQuery,
)
from slackwater.ui.whatif import list_choices, run_whatif

_LOG = logging.getLogger(__name__)
_LIVE = 1.0
#: Containers move seldom, and the agent reads them on request alone.
_SELDOM = 3.0
_UNAVAILABLE = 503
Answer = Callable[[Request], View]

_AGENT_PAGES = (
    NavigationItem("Node", ""),
    NavigationItem("Pods", "pods"),
    NavigationItem("CPUs", "cpus"),
    NavigationItem("Policies", "policies"),
    NavigationItem("What if", "whatif"),
)
_CLUSTER_PAGES = (
    NavigationItem("Nodes", ""),
    NavigationItem("Policies", "policies"),
    NavigationItem("Rotation", "rotation"),
)
_RECORDED = NavigationItem("What if", "whatif")


class Site:
    """Guards what the pages are made of: the sources, and a watch for each agent looked at."""

    def __init__(self, sources: PageSources, clock: Callable[[], float] = time.monotonic) -> None:
        self._sources = sources
        self._clock = clock
        self._watches: dict[str, AgentWatch] = {}
        self._own = AgentWatch(sources.agent, clock) if sources.agent else None

    # --- the agent's pages, of a node of the cluster or of the agent that was named

    def node(self, request: Request) -> View:
        name = _name(request)
        values: dict[str, object] = {"subnavigation": _AGENT_PAGES if name else ()}
        cluster = self._sources.cluster
        if name and cluster is not None:
            values |= _cluster_node(cluster, name)
        watch = self._watch(name)
        if isinstance(watch, Gap):
            values |= {"agent": None, "unreachable": watch.reason}
        else:
            values |= self._agent_values(watch, must=not name)
        return View("node.html", name or "Node", "", values, _LIVE)

    def _agent_values(self, watch: AgentWatch, must: bool) -> dict[str, object]:
        try:
            look = watch.look()
            rows = watch.explanation()
        except NotAvailableError as error:
            if must:
                raise
            return {"agent": None, "unreachable": str(error)}
        allocatable = look.overview.node.allocatable
        return {
            "agent": look,
            "unreachable": "",
            "usage": agent_views.usage_chart(look.samples, allocatable),
            "predicted": agent_views.forecast_chart(look.samples, allocatable),
            "knobs": agent_views.knob_views(rows),
            "general": agent_views.general_row(rows),
        }

    def pods(self, request: Request) -> View:
        look = self._need(request).look()
        wanted = request.query_params.get("q", "")
        values = {"look": look, "pods": agent_views.pods_view(look.overview, wanted)}
        return self._agent_view(request, "pods.html", "Pods", "pods", values)

    def pod(self, request: Request) -> View:
        target = request.query_params.get("target", "")
        rows = self._need(request).source.explain(target)
        values = {
            "target": target,
            "knobs": agent_views.knob_views(rows),
            "general": agent_views.general_row(rows),
        }
        return self._agent_view(request, "target.html", target, "pods", values)

    def cpus(self, request: Request) -> View:
        values = {"cpus": agent_views.cpus_view(self._need(request).source.cpus())}
        return self._agent_view(request, "cpus.html", "CPUs", "cpus", values, _SELDOM)

    def policies(self, request: Request) -> View:
        if self._sources.cluster is not None and not _name(request):
            return cluster_views.policies_view(self._sources.cluster.look(), _LIVE)
        watch = self._need(request)
        values = {
            "look": watch.look(),
            "policies": agent_views.policy_views(watch.explanation()),
        }
        return self._agent_view(request, "agent_policies.html", "Policies", "policies", values)

    def whatif(self, request: Request) -> View:
        recording, source = self._recording(request)
        key, value = request.query_params.get("key", ""), request.query_params.get("value", "")
        found, problem = None, ""
        if key:
            try:
                found = run_whatif(recording, key, value.strip())
            except NotAvailableError as error:
                problem = str(error)
        values = {
            "choices": list_choices(recording),
            "source": source,
            "ticks": len(recording.ticks),
            "key": key,
            "value": value,
            "found": found,
            "problem": problem,
        }
        return self._agent_view(request, "whatif.html", "What if", "whatif", values, 0)

    def _recording(self, request: Request) -> tuple[Recording, str]:
        if self._sources.recording is not None and not _name(request):
            return self._sources.recording, self._sources.recording_name
        watch = self._need(request)
        return watch.source.ticks(), f"the last ticks of {watch.source.name}"

    def _agent_view(
        self,
        request: Request,
        template: str,
        title: str,
        part: str,
        values: Mapping[str, object],
        live: float = _LIVE,
    ) -> View:
        name = _name(request)
        sub = {"subnavigation": _AGENT_PAGES if name else (), "node": name, "subpart": part}
        full = f"{title} of {name}" if name else title
        return View(template, full, "" if name else part, {**sub, **values}, live)

    # --- the cluster's pages

    def nodes(self, request: Request) -> View:
        cluster = self._sources.cluster
        if cluster is None:
            return self.node(request) if self._own else self.whatif(request)
        return cluster_views.nodes_view(cluster.look(), request.query_params, _LIVE)

    def rotation(self, request: Request) -> View:
        cluster = self._need_cluster()
        query = WorkloadQuery(
            request.query_params.get("workload", "").strip(),
            request.query_params.get("namespace", "").strip(),
        )
        plans, problem = RotationPlans(()), ""
        if not query.is_empty() or (self._sources.rotation_file and request.query_params):
            try:
                plans = cluster.plan(query)
            except NotAvailableError as error:
                problem = str(error)
        return cluster_views.rotation_view(plans, query, problem, self._sources.rotation_file)

    # --- whom a page is about

    def _need_cluster(self) -> ClusterSource:
        if self._sources.cluster is None:
            raise NotAvailableError("this page is about one agent, not about a cluster")
        return self._sources.cluster

    def _need(self, request: Request) -> AgentWatch:
        found = self._watch(_name(request))
        if isinstance(found, Gap):
            raise NotAvailableError(found.reason)
        return found

    def _watch(self, name: str) -> AgentWatch | Gap:
        if not name:
            return self._own or Gap(
                "this page needs an agent: choose a node, or name a recording with --recording"
            )
        if name not in self._watches:
            source = self._need_cluster().agent_of(name)
            if isinstance(source, Gap):
                return source
            self._watches[name] = AgentWatch(source, self._clock)
        return self._watches[name]


def _name(request: Request) -> str:
    found: str = request.path_params.get("name", "")
    return found


def _cluster_node(cluster: ClusterSource, name: str) -> dict[str, object]:
    snapshot = cluster.look()
    row = next((each for each in snapshot.status.nodes if each.name == name), None)
    if row is None:
        raise NotAvailableError(f"the cluster has no node {name!r}")
    values: dict[str, object] = {"row": row, "snapshot": snapshot, "forecast_problem": ""}
    try:
        forecast = cluster.forecast(name)
    except NotAvailableError as error:
        return values | {"forecast_problem": str(error)}
    return values | {
        "forecast": forecast,
        "forecast_charts": cluster_views.forecast_charts(forecast),
    }


def build_application(sources: PageSources, about: str) -> Starlette:
    """`about` is the cluster's or the agent's name, for the head of every page."""
    site = Site(sources)
    pages = Pages(about, _navigation(sources))
    routes = [
        Route("/", _answer(pages, site.nodes)),
        *(
            Route(f"{prefix}/{path}", _answer(pages, answer))
            for prefix in ("", "/nodes/{name}")
            for path, answer in (
                ("pods", site.pods),
                ("pod", site.pod),
                ("cpus", site.cpus),
                ("policies", site.policies),
                ("whatif", site.whatif),
            )
        ),
        Route("/nodes/{name}/", _answer(pages, site.node)),
        Route("/rotation", _answer(pages, site.rotation)),
        Mount("/static", StaticFiles(directory=FOLDER / "static")),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={HTTPException: lambda request, error: _refused(pages, request, error)},
    )


def _navigation(sources: PageSources) -> tuple[NavigationItem, ...]:
    if sources.cluster is None:
        return _AGENT_PAGES if sources.agent else (_RECORDED,)
    return (*_CLUSTER_PAGES, _RECORDED) if sources.recording else _CLUSTER_PAGES


def _answer(pages: Pages, answer: Answer) -> Callable[[Request], Response]:
    """In a thread of Starlette's pool, as sources block. What cannot be had is a sentence; what we
    did not think of is one too, with its trace on the terminal."""

    def respond(request: Request) -> Response:
        try:
            return pages.respond(request, answer(request))
        except NotAvailableError as error:
            return pages.respond(request, _sentence_view(str(error), _LIVE, _UNAVAILABLE))
        except Exception as error:  # noqa: BLE001 - the page must say so, and the rest go on
            _LOG.error("%s\n%s", request.scope["path"], traceback.format_exc())
            told = f"slackwater ui failed on this page: {type(error).__name__}: {error}; its "
            return pages.respond(request, _sentence_view(f"{told}terminal has more", _LIVE, 500))

    return respond


def _sentence_view(sentence: str, live: float, status: int) -> View:
    return View("sentence.html", "Not available", "?", {"sentence": sentence}, live, status)


def _refused(pages: Pages, request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return pages.respond(request, _sentence_view("There is no such page.", 0, status))
