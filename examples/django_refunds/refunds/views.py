"""Sync views: sign in, request a refund, decide an approval. Django's own middleware protects them from other sites."""

import json

from django.contrib.auth import authenticate, login
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import ensure_csrf_cookie

import wfcore
from refunds.automation import automation
from refunds.models import Request


@ensure_csrf_cookie
def sign_in(request: HttpRequest) -> JsonResponse:
    if request.method == "GET":
        return JsonResponse({})
    sent = json.loads(request.body)
    user = authenticate(request, username=sent["user"], password=sent["password"])
    if user is None:
        return JsonResponse({"error": "unknown user or wrong password"}, status=401)
    login(request, user)
    return JsonResponse({"user": user.get_username()})


def refund(request: HttpRequest) -> JsonResponse:
    """The request and its run are written in one transaction: both exist, or none."""
    me, sent = automation.principal(request), json.loads(request.body)
    (flow,) = automation.core.workflows.page(me)
    data = {"order": sent["order"], "amount": sent["amount"]}
    with transaction.atomic():
        entry = Request.objects.create(order=sent["order"], amount=sent["amount"])
        run = automation.core.runs.start(me, workflow=flow.id, input=data, connection=connection.connection)
        Request.objects.filter(pk=entry.pk).update(run=run.id)
    return JsonResponse({"run": run.id}, status=202)


def decide(request: HttpRequest, run: str) -> JsonResponse:
    me, sent = automation.principal(request), json.loads(request.body)
    try:
        resumed = automation.core.runs.resume(me, run, decision=sent["decision"])
    except wfcore.WfcoreError as error:
        return JsonResponse({"error": error.to_wire("")}, status=error.http)
    return JsonResponse({"run": resumed.id}, status=202)
