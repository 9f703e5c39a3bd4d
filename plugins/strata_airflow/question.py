"""The question to the approver: each answer to choose from names the request it is about."""

from collections.abc import Collection

from airflow.providers.standard.operators.hitl import HITLOperator


class Question(HITLOperator):
    """A question whose options come from what is asked, so that Airflow keeps them as shown.

    They are rendered again when the answer arrives: one to another request is none of them, and the
    task fails.
    """

    template_fields: Collection[str] = (*HITLOperator.template_fields, "options", "defaults")
