"""The scheme `mqdlq` of Airflow's message queues: any DAG can wait for a handler's dead letters."""

from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider

from mqdlq.airflow.triggers.arrival import ArrivalTrigger


class DeadLetters(BaseMessageQueueProvider):
    """Let `MessageQueueTrigger(scheme="mqdlq", handler="orders")` wait as `ArrivalTrigger` does."""

    scheme = "mqdlq"

    def trigger_class(self) -> type[ArrivalTrigger]:
        return ArrivalTrigger
