"""Tests of the product: `manage.py test --settings settings_test`, in this directory."""

from django.contrib.auth.models import User
from django.test import TransactionTestCase

from refunds.automation import automation, principal_of
from refunds.models import Refund


class RefundTests(TransactionTestCase):
    def test_a_small_refund_is_paid_at_once(self) -> None:
        user = User.objects.create_user("ann", "ann@shop.example", "ann")
        self.client.force_login(user)
        sent = self.client.post("/refunds", {"order": 1, "amount": "7.00"}, content_type="application/json")
        core = automation.core
        run = core.runs.get(principal_of(core, user), sent.json()["run"])
        assert core.runs.result(run, timeout=60) == "7.00"
        assert Refund.objects.get().order == 1
