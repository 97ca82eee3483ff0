from isolate_tools import get_invoice, list_invoices

invoices = [get_invoice(id=id) for id in list_invoices()]
print("RESULT:", sum(i["total"] for i in invoices if i["region"] == "EU"))
