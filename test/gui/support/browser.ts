/** A headless Chromium of the machine: no download, no request of its own, the same pixels each time. */
import { accessSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

const EXECUTABLE = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--force-color-profile=srgb',
  '--font-render-hinting=none',
  '--disable-lcd-text',
];

export function hasBrowser(): boolean {
  try {
    accessSync(EXECUTABLE);
    return true;
  } catch {
    return false;
  }
}

export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: EXECUTABLE, headless: true, args: FLAGS });
}
