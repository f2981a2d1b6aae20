"""Sync views: sign in, request a refund, decide an approval. Django's own middleware protects them from other sites."""

import json
from decimal import Decimal
from typing import Any

from django import forms
from django.contrib.auth import authenticate, login
from django.core.exceptions import BadRequest
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST

from refunds.automation import automation
from refunds.models import Request


class RefundForm(forms.Form):
    order = forms.IntegerField(min_value=1, max_value=2**31 - 1)
    amount = forms.DecimalField(min_value=Decimal("0.01"), max_digits=10, decimal_places=2)


def body_of(request: HttpRequest) -> dict[str, Any]:
    """The JSON object in the body of a request. Raises BadRequest, which Django answers with 400."""
    try:
        sent = json.loads(request.body)
    except ValueError:
        sent = None
    if not isinstance(sent, dict):
        raise BadRequest("the body must be a JSON object")
    return sent


@ensure_csrf_cookie
def sign_in(request: HttpRequest) -> JsonResponse:
    if request.method == "GET":
        return JsonResponse({})
    sent = body_of(request)
    user = authenticate(request, username=str(sent.get("user")), password=str(sent.get("password")))
    if user is None:
        return JsonResponse({"error": "unknown user or wrong password"}, status=401)
    login(request, user)
    return JsonResponse({"user": user.get_username()})


@require_POST
def refund(request: HttpRequest) -> JsonResponse:
    """The request and its run are written in one transaction: both exist, or none."""
    me, form = automation.principal(request), RefundForm(body_of(request))
    if not form.is_valid():
        return JsonResponse({"error": form.errors}, status=422)
    (flow,) = automation.core.workflows.page(me)
    order, amount = form.cleaned_data["order"], form.cleaned_data["amount"]
    data = {"order": order, "amount": str(amount)}
    with transaction.atomic():
        entry = Request.objects.create(order=order, amount=amount)
        run = automation.core.runs.start(me, workflow=flow.id, input=data, connection=connection.connection)
        Request.objects.filter(pk=entry.pk).update(run=run.id)
    return JsonResponse({"run": run.id}, status=202)


@require_POST
def decide(request: HttpRequest, run: str) -> JsonResponse:
    me, sent = automation.principal(request), body_of(request)
    resumed = automation.core.runs.resume(me, run, {"decision": sent.get("decision")})
    return JsonResponse({"run": resumed.id}, status=202)
