// Sums the invoices of the EU, as main.py does.
import { get } from "node:http";
import { get_invoice, list_invoices } from "isolate-tools";

const url = process.argv[2] ?? "http://127.0.0.1:8000/";
const began = performance.now();
await new Promise((done) => {
  get(url, () => done(console.log("the URL was opened"))).on("error", (error) =>
    done(console.log("no network:", error.code)),
  );
});
console.error(`URL tried for ${((performance.now() - began) / 1000).toFixed(3)} s`);

const invoices = await Promise.all((await list_invoices()).map((id) => get_invoice({ id })));
const total = invoices
  .filter((invoice) => invoice.region === "EU")
  .reduce((sum, invoice) => sum + invoice.total, 0);
console.log("RESULT:", total);
