"""The routes of the product."""

from django.urls import path
from refunds import views

urlpatterns = [
    path("login", views.sign_in),
    path("refunds", views.refund),
    path("approvals/<run>", views.decide),
]
