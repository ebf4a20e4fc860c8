# One image for every process: `callboard server`, `callboard worker`.
FROM node:24-bookworm-slim

RUN apt-get update \
  && apt-get install -y --no-install-recommends python3-minimal \
  && rm -rf /var/lib/apt/lists/*

WORKDIR /app
COPY package.json package-lock.json ./
# The platform packages come along: some tools have their native parts there.
RUN npm ci --omit=dev --no-audit --no-fund && npm cache clean --force
COPY . .
# Built here, so that a container shows the GUI at once and needs no place to write it.
RUN npm run gui:build

ENV NODE_ENV=production SVC_HOST=0.0.0.0 SVC_DATA_DIR=/data
RUN mkdir /data && chown node:node /data
VOLUME /data
USER node
EXPOSE 8082
ENTRYPOINT ["node", "src/cli/callboard.mjs"]
CMD ["server"]
