"""`slackwater resume`: ends the pause after a release by hand."""

import click

from slackwater.agent.pause_file import PauseFile
from slackwater.cli.cluster_options import asking_cluster, cluster_options
from slackwater.cli.host_options import folder_options, lasting_folder
from slackwater.cli.output import Failed


@click.command()
@folder_options
@click.option(
    "--every-node", is_flag=True, help="End what `slackwater release --every-node` began instead."
)
@cluster_options
def resume(
    state: str, lasting: str, every_node: bool, kubeconfig: str, context: str, namespace: str
) -> None:
    """End the pause after `slackwater release`.

    The agent on this node sees it at its next tick; one that does not run, at its start.

    \b
    Examples:
      kubectl -n slackwater-system exec POD -- slackwater resume
      slackwater resume --every-node

    \b
    Exit codes: 0 it is ended, or there was none; 1 it could not be ended.
    """
    if every_node:
        from slackwater.manager.agent_release import resume_every_node

        with asking_cluster(kubeconfig, context) as client:
            resume_every_node(client, namespace)
        click.echo("slackwater: agents decide again, but where one was released by hand", err=True)
        return
    pause_file = PauseFile((lasting_folder(state, lasting), state))
    if not pause_file.is_there():
        click.echo("slackwater: nothing was released by hand here", err=True)
        return
    failed = pause_file.remove()
    if failed is not None:
        raise Failed(failed.reason)
    click.echo("slackwater: the agent decides again from its next tick on", err=True)
