// Prints what mailparser reads of each file of a folder, one JSON line each.
// mailparser.js DIRECTORY_OF_MAILPARSER FOLDER

const { existsSync, readFileSync } = require("node:fs");
const { createRequire } = require("node:module");

const [directory, folder] = process.argv.slice(2);
const { simpleParser } = createRequire(`${directory}/`)("mailparser");

(async () => {
  for (let number = 0; existsSync(`${folder}/${number}.eml`); number += 1) {
    const options = { skipTextLinks: true, skipImageLinks: true };
    const message = await simpleParser(readFileSync(`${folder}/${number}.eml`), options);
    const from = message.from?.value[0];
    const files = message.attachments.map((file) => [
      file.filename ?? null, file.contentType, file.content.toString("base64")]);
    console.log(JSON.stringify({
      subject: message.subject ?? "", from: from ? [from.name, from.address] : null,
      text: message.text ?? "", html: message.html || "", files,
    }));
  }
})();
