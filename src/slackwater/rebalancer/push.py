"""Metrics of a run that is too short to be scraped, sent to a Pushgateway or to VictoriaMetrics.

Owns where they go and what failed. A push that fails is told and changes nothing else: the pods
have gone, and a Job that fails for its metrics alone would be run again, or page somebody.
"""

from urllib.parse import quote, urlsplit

from slackwater.model.gap import Gap
from slackwater.model.problem import quoted

JOB = "slackwater-rebalancer"
#: In seconds, for the connection and for each part of the answer.
_PATIENCE = 10.0
#: A path with one of these says where the metrics go; else they go below it, as a job's.
_PUSHGATEWAY, _VICTORIA_METRICS = "/metrics/", "/api/v1/import/prometheus"
_LONGEST_ANSWER = 200


def target_of(url: str, instance: str) -> str | Gap:
    """Where it goes; a Gap where the setting is no address of a server."""
    wrong = Gap(f"push is {quoted(url)}, but must be an http or https URL")
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            return wrong
    except ValueError:
        return wrong
    if _PUSHGATEWAY in parts.path or _VICTORIA_METRICS in parts.path:
        return url
    of = f"/instance/{quote(instance, safe='')}" if instance else ""
    return parts._replace(path=f"{parts.path.rstrip('/')}/metrics/job/{JOB}{of}").geturl()


def push(url: str, content_type: str, body: bytes, instance: str = "") -> str:
    """Replaces the group of the last run. One sentence where it failed, empty where it did not."""
    target = target_of(url, instance)
    if isinstance(target, Gap):
        return f"the metrics were not pushed: {target.reason}"
    return _sent(target, content_type, body)


def _sent(target: str, content_type: str, body: bytes) -> str:
    import urllib3

    from slackwater.http.connection import reason
    from slackwater.rebalancer.sources.prometheus_wire import cause_of

    parsed = urllib3.util.parse_url(target)
    shown = parsed._replace(auth=None).url  # a password in the URL is not for a log
    # VictoriaMetrics imports by POST; a Pushgateway's PUT replaces, its POST would keep old series.
    method = "POST" if _VICTORIA_METRICS in (parsed.path or "") else "PUT"
    headers = {"Content-Type": content_type}
    if parsed.auth:
        headers |= urllib3.make_headers(basic_auth=parsed.auth)
    try:
        with urllib3.PoolManager(timeout=_PATIENCE, retries=False) as pool:
            answer = pool.request(method, shown, body=body, headers=headers)
            if 200 <= answer.status < 300:
                return ""
            said = " ".join(answer.data[:_LONGEST_ANSWER].decode("utf-8", "replace").split())
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        why = reason(cause_of(error), _PATIENCE)
        return f"the metrics were not pushed to {shown}: {why}"
    return f"the metrics were not pushed to {shown}: it answered {answer.status} {quoted(said)}"
