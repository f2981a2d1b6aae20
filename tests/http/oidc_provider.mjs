// oidc-provider as an authorization server for tests. Its argument is the library's main module.
// Each line that comes in, {"keys", "org", "scope", "lifetime"}, makes the server anew; each that goes out is its URL, once
// it is so. The first key signs. A token request may have a header `X-Change`, {"header", "claims"}, to be said in the
// token; null takes out. It ends when its input does.
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

console.info = console.warn = console.error;
const { Provider } = await import(pathToFileURL(process.argv[2]));

const change = (whole, more = {}) => {
  const kept = Object.entries({ ...whole, ...more }).filter(([, value]) => value !== null);
  return Object.fromEntries(kept);
};

const configuration = ({ keys, org, scope, lifetime }) => ({
  jwks: { keys },
  clients: [
    ...['ada', 'eve'].map((name) => ({
      client_id: name,
      client_secret: 'secret',
      grant_types: ['client_credentials', 'authorization_code'],
      redirect_uris: ['https://client.example/callback'],
      id_token_signed_response_alg: 'ES256',
    })),
    {
      client_id: 'wfcore',
      client_secret: 'secret',
      grant_types: ['authorization_code', 'refresh_token'],
      redirect_uris: ['http://wfcore.test/api/v1/connections/callback'],
      id_token_signed_response_alg: 'ES256',
    },
  ],
  issueRefreshToken: (ctx, client) => client.grantTypeAllowed('refresh_token'),
  pkce: { required: () => true },
  rotateRefreshToken: true,
  enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
  cookies: { keys: ['secret'] },
  findAccount: (ctx, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  extraTokenClaims: () => ({ org }),
  formats: {
    customizers: {
      jwt(ctx, token, jwt) {
        const { header, claims } = JSON.parse(ctx.get('x-change') || '{}');
        jwt.header = header;
        jwt.payload = change(jwt.payload, claims);
      },
    },
  },
  features: {
    clientCredentials: { enabled: true },
    revocation: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, resource) => ({
        scope,
        audience: resource,
        accessTokenFormat: 'jwt',
        accessTokenTTL: lifetime,
        jwt: { sign: { alg: 'ES256', kid: keys[0].kid } },
      }),
    },
  },
});

let answer;
const server = createServer((request, response) => answer(request, response));
await new Promise((ready) => { server.listen(0, '127.0.0.1', ready); });
const url = `http://127.0.0.1:${server.address().port}`;

for await (const line of createInterface({ input: process.stdin })) {
  answer = new Provider(url, configuration(JSON.parse(line))).callback();
  process.stdout.write(`${url}\n`);
}
process.exit();
