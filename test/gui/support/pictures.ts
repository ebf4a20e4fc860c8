/**
 * Pictures of pages against the ones that were looked at and kept. They are kept small, a quarter in each direction:
 * smoothing takes away what differs between versions of a browser, and leaves what a person would notice. Letters of
 * another font take other room, so pictures belong to a font; where there are none for it, nothing is compared.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';

const FOLDER = fileURLToPath(new URL('../baselines/', import.meta.url));
const UPDATE = process.env['UPDATE_PICTURES'] === '1';
const SHRINK = 4;
/** Of 255, in one channel. */
const DELTA_SEEN = 40;
export const SHARE_SEEN = 0.004;

export interface Gallery {
  /** Share of pixels that a person would see to differ, or null where nothing is kept for the fonts of this machine. */
  compare(page: Page, name: string): Promise<number | null>;
  close(): Promise<void>;
}

export async function openGallery(browser: Browser): Promise<Gallery> {
  const easel = await browser.newPage();
  const folder = `${FOLDER}${await fontOf(easel)}/`;
  const isKnown = existsSync(folder);
  return {
    compare: async (page, name) => {
      if (!isKnown && !UPDATE) return null;
      const shot = await page.screenshot({ animations: 'disabled', caret: 'hide' });
      const now = await shrink(easel, shot);
      const file = `${folder}${name}.png`;
      if (UPDATE) {
        await mkdir(folder, { recursive: true });
        await writeFile(file, now);
        return 0;
      }
      const difference = await differing(easel, await readFile(file), now);
      // Beside the log of the failure, to be looked at.
      if (difference > SHARE_SEEN)
        await writeFile(`${fileURLToPath(new URL(`../../../.callboard/`, import.meta.url))}${name}.png`, shot).catch(
          () => {},
        );
      return difference;
    },
    close: () => easel.close(),
  };
}

/** A name for the fonts that the pages get here: how wide they write. */
async function fontOf(easel: Page): Promise<string> {
  await easel.setContent(
    '<span id="a" style="font:100px system-ui,sans-serif">Callboard 0123 mwi</span><br><span id="b" style="font:100px monospace">mwi</span>',
  );
  return easel.evaluate(() =>
    ['a', 'b'].map((id) => Math.round(document.getElementById(id)?.getBoundingClientRect().width ?? 0)).join('-'),
  );
}

async function shrink(easel: Page, picture: Buffer): Promise<Buffer> {
  const data = await easel.evaluate(
    async ([source, by]) => {
      const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${source}`)).blob());
      const canvas = new OffscreenCanvas(Math.ceil(image.width / by), Math.ceil(image.height / by));
      const context = canvas.getContext('2d');
      if (context === null) throw new Error('There is no canvas');
      context.imageSmoothingQuality = 'high';
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      const bytes = new Uint8Array(await (await canvas.convertToBlob({ type: 'image/png' })).arrayBuffer());
      return btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ''));
    },
    [picture.toString('base64'), SHRINK] as const,
  );
  return Buffer.from(data, 'base64');
}

function differing(easel: Page, kept: Buffer, now: Buffer): Promise<number> {
  return easel.evaluate(
    async ([sources, delta]) => {
      const [a, b] = await Promise.all(
        sources.map(async (source) => {
          const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${source}`)).blob());
          const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
          if (context === null) throw new Error('There is no canvas');
          context.drawImage(image, 0, 0);
          return context.getImageData(0, 0, image.width, image.height);
        }),
      );
      if (a === undefined || b === undefined || a.width !== b.width || a.height !== b.height) return 1;
      let seen = 0;
      for (let at = 0; at < a.data.length; at += 4) {
        const far = [0, 1, 2].some((each) => Math.abs((a.data[at + each] ?? 0) - (b.data[at + each] ?? 0)) > delta);
        if (far) seen += 1;
      }
      return seen / (a.width * a.height);
    },
    [[kept.toString('base64'), now.toString('base64')], DELTA_SEEN] as const,
  );
}
