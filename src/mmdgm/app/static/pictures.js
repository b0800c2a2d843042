// Pictures of the model: bytes (height, width, channels) in base64, and how they are painted on a canvas.

/** Return bytes as base64. */
export function encode(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
}

/** Return the bytes of a text in base64. */
export const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** Return the pixels of a canvas for a picture of 1 or 3 channels. */
export function asImage(bytes, { height, width, channels }) {
  const image = new ImageData(width, height);
  for (let i = 0; i < height * width; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = bytes[channels * i + (channels === 3 ? c : 0)];
    image.data[4 * i + 3] = 255;
  }
  return image;
}

/** Paint a picture (bytes, or base64) on a canvas, one pixel for one pixel; CSS makes it larger. */
export function paint(canvas, picture, shape) {
  if (canvas.width !== shape.width || canvas.height !== shape.height) {
    canvas.width = shape.width;
    canvas.height = shape.height;
  }
  const bytes = typeof picture === "string" ? decode(picture) : picture;
  canvas.getContext("2d").putImageData(asImage(bytes, shape), 0, 0);
}
