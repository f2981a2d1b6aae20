"""The product's tables: requests for refunds, and the refunds that were paid."""

from django.db import models


class Request(models.Model):
    order = models.IntegerField()
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    run = models.CharField(max_length=255)


class Refund(models.Model):
    key = models.CharField(max_length=255, primary_key=True)
    """The key of the tool's call: a call that is repeated adds no refund."""
    order = models.IntegerField()
    amount = models.DecimalField(max_digits=10, decimal_places=2)
