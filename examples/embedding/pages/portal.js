// Called before the first request, before the token expires, and once more after a 401.
document.querySelector("wfcore-provider").getToken = async () => (await fetch("token")).text();
