"use strict";

const { optionalDependencies } = require("./package.json");

/** The path of `svc`: that in the variable SVC, or that of the package for this platform. */
exports.findBinary = () => {
  if (process.env.SVC) return process.env.SVC;
  const platform = `${process.platform}-${process.arch}`;
  if (!(`svc-cli-${platform}` in optionalDependencies)) {
    throw new Error(`there is no package for ${platform}: set SVC to the path of an svc that you have`);
  }
  try {
    return require.resolve(`svc-cli-${platform}/bin/svc${process.platform === "win32" ? ".exe" : ""}`);
  } catch (cause) {
    const way = "install it without --omit=optional, or set SVC to the path of an svc that you have";
    throw new Error(`the package svc-cli-${platform} is not installed: ${way}`, { cause });
  }
};
